"""The arithmetic of a KV cache, and the shapes it starts from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kvxray_engine.calc import DTYPE_BITS, GIB, KvShape, kv_bytes, num_fitting
from kvxray_engine.dtypes import CACHE_DTYPES
from kvxray_engine.errors import UserError
from kvxray_engine.model_shapes import KNOWN, find_model, read_config
from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import CACHE_FORMATS

LLAMA_2_70B = KvShape(layers=80, kv_heads=8, head_dim=128, heads=64)


def test_llama_2_70b_takes_ten_gib_for_32_768_tokens_and_eighty_with_mha() -> None:
    assert kv_bytes(LLAMA_2_70B, "fp16", 32768) == 10_737_418_240 == 10 * GIB
    mha = LLAMA_2_70B.as_mha()
    assert mha is not None
    assert kv_bytes(mha, "fp16", 32768) == 85_899_345_920


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_it_counts_what_a_cache_of_ours_takes_scales_included(dtype: str) -> None:
    cache = CacheShape(num_layers=80, num_blocks=1, block_size=1, num_kv_heads=8, head_dim=128)
    one = kv_bytes(LLAMA_2_70B, dtype, 1)
    assert one == cache.bytes_per_block(CACHE_FORMATS[CACHE_DTYPES[dtype]])
    assert kv_bytes(LLAMA_2_70B, dtype, 100, batch=7) == 700 * one


def test_int4_with_its_scales_is_little_more_than_a_quarter_of_fp16() -> None:
    assert kv_bytes(LLAMA_2_70B, "int4", 1) == 2 * 80 * 8 * (128 // 2 + 4)
    assert kv_bytes(LLAMA_2_70B, "int4", 1) / kv_bytes(LLAMA_2_70B, "fp16", 1) == pytest.approx(0.2656, abs=1e-4)
    assert kv_bytes(LLAMA_2_70B, "int8", 1) == 2 * 80 * 8 * (128 + 2)


def test_a_window_keeps_no_more_than_its_tokens() -> None:
    shape = KvShape(layers=2, kv_heads=1, head_dim=4, window_layers=6, window=10)
    assert kv_bytes(shape, "fp16", 10) == 8 * 10 * 16
    assert kv_bytes(shape, "fp16", 1000) == (2 * 1000 + 6 * 10) * 16


def test_latent_attention_keeps_one_vector() -> None:
    shape = KvShape(layers=61, kv_heads=128, head_dim=56, heads=128, latent_dim=576)
    assert kv_bytes(shape, "bf16", 1) == 61 * 576 * 2
    assert kv_bytes(shape, "int4", 1) == 61 * (288 + 4), "one scale and one minimum"
    assert shape.as_mha() is None


def test_requests_fit_in_whole_blocks() -> None:
    shape = KvShape(layers=1, kv_heads=1, head_dim=1)
    assert num_fitting(1000, shape, "fp8", tokens=16, block_size=16) == 31
    assert num_fitting(1000, shape, "fp8", tokens=17, block_size=16) == 15
    assert num_fitting(-5, shape, "fp8", tokens=1, block_size=16) == 0


PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b-v0.1": 46_702_792_704,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "smollm2-135m": 134_515_008,
    "smollm2-1.7b": 1_711_376_384,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_what_the_makers_publish(name: str) -> None:
    assert find_model(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_model_is_found_by_its_name(name: str) -> None:
    assert find_model(name.upper()).name == name


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
    ],
)
def test_names_of_the_hub_are_understood(name: str, known: str) -> None:
    assert find_model(name).name == known


def test_an_unknown_name_answers_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"no known model of that name; known are: .*llama-2-70b"):
        find_model("gpt-9")


def config(folder: Path, **fields: object) -> Path:
    base = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64}
    path = folder / "config.json"
    path.write_text(json.dumps(base | fields))
    return path


def test_a_config_is_read_from_its_file_or_its_folder(tmp_path: Path) -> None:
    path = config(tmp_path, num_key_value_heads=2, head_dim=16, torch_dtype="float32")
    for place in (str(path), str(tmp_path)):
        model = find_model(place)
        assert model.kv == KvShape(layers=4, kv_heads=2, head_dim=16, heads=8)
        assert (model.name, model.dtype, model.parameters) == (tmp_path.name, "fp32", None)


def test_what_a_config_leaves_out_is_mha_and_an_even_share_of_the_hidden_size(tmp_path: Path) -> None:
    assert read_config(config(tmp_path)).kv == KvShape(layers=4, kv_heads=8, head_dim=8, heads=8)


def test_the_language_model_of_one_that_sees_is_read(tmp_path: Path) -> None:
    inner = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8}
    assert read_config(config(tmp_path, text_config=inner)).kv.layers == 3


def test_layers_are_counted_by_what_they_keep(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention", "linear_attention", "sliding_attention"]
    kv = read_config(config(tmp_path, layer_types=kinds, sliding_window=512)).kv
    assert (kv.layers, kv.window_layers, kv.window) == (1, 2, 512)


def test_a_window_that_is_not_used_is_no_window(tmp_path: Path) -> None:
    kv = read_config(config(tmp_path, model_type="qwen2", sliding_window=32768, intermediate_size=9, vocab_size=9)).kv
    assert (kv.layers, kv.window_layers, kv.window) == (4, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"num_hidden_layers": 0, "num_attention_heads": 8, "hidden_size": 64}',
        '{"num_hidden_layers": "4", "num_attention_heads": 8, "hidden_size": 64}',
        '{"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "head_dim": -1}',
        '{"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "layer_types": ["linear_attention"]}',
        '{"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "kv_lora_rank": 512}',
    ],
)
def test_a_config_that_tells_no_shape_is_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match="The shape of a model cannot be read from .*: .+\\.$"):
        read_config(path)
