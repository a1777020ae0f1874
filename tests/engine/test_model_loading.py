"""A model and its cache: how many blocks there are when nobody says, and what another cache dtype changes."""

import pytest
import torch
from kvxray_engine import model_loading
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
    monkeypatch.setattr(model_loading, "physical_memory", lambda: GB)
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
