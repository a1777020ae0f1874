"""A model and its cache: how many blocks there are when nobody says, and what another cache dtype changes."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from kvxray_engine import model_loading
from kvxray_engine.dtypes import CACHE_DTYPES
from kvxray_engine.engine import LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import DEFAULT_CACHE_BYTES, MAX_DEFAULT_BLOCKS, open_model
from kvxray_engine.step_batch import SamplingParams

from tests.engine.model_driver import generate
from tests.engine.small_hf import small_model, write_folder

GB = 10**9


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny():
    return open_model("tiny")


def test_a_cache_has_so_many_blocks_as_fit_a_gibibyte_within_reason(tiny) -> None:
    assert tiny.default_num_blocks(16, "float32") == MAX_DEFAULT_BLOCKS
    large = 1 << 16
    assert tiny.default_num_blocks(large, "float32") == DEFAULT_CACHE_BYTES // tiny.bytes_per_block(large, "float32")
    assert tiny.default_num_blocks(1 << 26, "float32") == 2, "the null block and one to use"


def test_a_share_of_the_memory_is_for_weights_and_cache(tiny, monkeypatch) -> None:
    monkeypatch.setattr(model_loading, "total_memory", lambda device: GB)
    blocks = tiny.num_blocks_within(0.5, 16, "float32")
    used = tiny.model.weights.num_bytes + blocks * tiny.bytes_per_block(16, "float32")
    assert 0 <= GB // 2 - used < tiny.bytes_per_block(16, "float32")
    assert tiny.num_blocks_within(0.5, 16, "bfloat16") == pytest.approx(2 * blocks, abs=1)
    with pytest.raises(UserError, match=r"0\.0001 of this machine's 1\.0 GB has no room .*raise --gpu-memory-util"):
        tiny.num_blocks_within(0.0001, 16, "float32")


@pytest.mark.parametrize("family", ["llama", "llama3", "qwen2", "qwen3"])
def test_weights_are_counted_once(tmp_path, family: str) -> None:
    """Also where the embedding is the head: parameters are listed once by transformers."""
    parameters = sum(parameter.numel() for parameter in small_model(family).parameters())
    assert open_model(str(write_folder(tmp_path, family))).model.weights.num_bytes == 4 * parameters
    assert open_model(str(tmp_path), dtype="bfloat16").model.weights.num_bytes == 2 * parameters


def test_on_a_device_that_others_use_too_no_more_than_what_is_free_is_taken(tiny, monkeypatch) -> None:
    monkeypatch.setattr(model_loading, "total_memory", lambda device: GB)
    monkeypatch.setattr(model_loading, "free_memory", lambda device: GB // 10)
    assert tiny.num_blocks_within(0.9, 16, "auto") == GB // 10 // tiny.bytes_per_block(16, "auto")
    with pytest.raises(UserError, match=r"needs 0\.2 GB of memory and this machine has 0\.1 GB: ask for fewer blocks"):
        tiny.with_cache(GB // 5 // tiny.bytes_per_block(16, "auto"), 16, "auto")


@pytest.mark.parametrize(("name", "stored"), CACHE_DTYPES.items())
def test_every_name_of_a_cache_dtype_gives_a_cache_that_runs(tiny, name: str, stored: str) -> None:
    """Also where keys and values are converted on their way, such as float32 to float16."""
    runner = tiny.with_cache(20, 16, name)
    assert (runner.kv_cache_dtype, runner.backend.cache_format.name) == (stored, stored)
    assert runner.backend.dtype == (runner.backend.key_cache.dtype if "float" in stored else torch.float32)
    assert runner.bytes_per_block == tiny.bytes_per_block(16, name)
    prompt = tiny.tokenizer.encode("The cache holds the block that the agents share. ")
    (told,) = generate(runner, [prompt], SamplingParams(max_tokens=3), chunk=16)
    assert len(told) == 3


@pytest.mark.parametrize(
    ("name", "head_dim", "most"), [("fp8", 64, 0.51), ("int8", 64, 0.52), ("int4", 64, 0.29), ("int4", 128, 0.27)]
)
def test_the_descriptor_tells_what_a_block_takes_and_would_take_in_fp16(
    tiny, name: str, head_dim: int, most: float
) -> None:
    """Scales counted."""
    model = copy.copy(tiny.model)
    model.config = replace(model.config, head_dim=head_dim)
    engine = LLMEngine(replace(tiny, model=model).with_cache(20, 16, name))
    told = engine.descriptor()
    assert told.kv_cache_dtype == CACHE_DTYPES[name]
    assert told.bytes_per_block_fp16 == 2 * 2 * 16 * 2 * head_dim * 2
    assert told.bytes_per_block <= most * told.bytes_per_block_fp16
    backend = engine.model.backend
    kept = [backend.key_cache, backend.value_cache, backend.key_scales, backend.value_scales]
    assert told.bytes_per_block * 20 == sum(tensor.nbytes for tensor in kept if tensor is not None)


def test_a_cache_of_no_known_dtype_is_refused(tiny) -> None:
    with pytest.raises(UserError, match=r"no cache dtype called int3: choose auto, fp32, .* int8 or int4\."):
        tiny.with_cache(20, 16, "int3")


def test_auto_is_the_dtype_of_the_model(tmp_path) -> None:
    assert open_model("tiny").with_cache(4, 16, "auto").kv_cache_dtype == "float32"
    assert open_model("tiny", "bfloat16").with_cache(4, 16, "auto").kv_cache_dtype == "bfloat16"
    quantised = open_model("tiny", "bfloat16").with_cache(4, 16, "int8")
    assert quantised.backend.dtype == torch.bfloat16, "a quantised cache is read as what the model computes in"


def test_heads_that_do_not_fill_their_bytes_are_refused(tiny) -> None:
    odd = copy.copy(tiny.model)
    odd.config = SimpleNamespace(head_dim=15)
    with pytest.raises(UserError, match=r"int4 keeps 2 numbers in a byte, and this model's heads have 15: choose"):
        replace(tiny, model=odd).cache_format("int4")


def test_weights_in_int8_take_less_memory_and_change_scores_a_little(tiny) -> None:
    prompt = tiny.tokenizer.encode("The cache holds the block that the agents share. ")
    quantised = open_model("tiny", quantization="int8")
    assert quantised.model.num_bytes < 0.6 * tiny.model.num_bytes, "embedding and head keep their 4 bytes a number"
    tops = []
    for opened in (tiny, quantised):
        runner = opened.with_cache(20, 16, "auto")
        generate(runner, [prompt], SamplingParams(max_tokens=1, logprobs=20), chunk=16)
        tops.append(dict(runner.logprobs["0"].top))
    shared = tops[0].keys() & tops[1].keys()
    assert len(shared) > 10
    assert 0 < max(abs(tops[0][token] - tops[1][token]) for token in shared) < 0.2


def test_an_unknown_quantisation_of_weights_is_refused() -> None:
    with pytest.raises(UserError, match=r"no quantisation of weights called awq: choose int8\."):
        open_model("tiny", quantization="awq")


def test_a_cache_of_half_the_width_changes_scores_a_little_and_takes_half_the_memory(tiny) -> None:
    prompt = tiny.tokenizer.encode("The cache holds the block that the agents share. ")
    tops = []
    for dtype in ("float32", "bfloat16"):
        runner = tiny.with_cache(20, 16, dtype)
        assert runner.kv_cache_dtype == dtype
        generate(runner, [prompt], SamplingParams(max_tokens=1, logprobs=20), chunk=16)
        tops.append((runner.bytes_per_block, dict(runner.logprobs["0"].top)))
    (full_bytes, full), (half_bytes, half) = tops
    assert full_bytes == 2 * half_bytes
    shared = full.keys() & half.keys()
    assert len(shared) > 10
    differences = [abs(full[token] - half[token]) for token in shared]
    assert 0 < max(differences) < 0.2
