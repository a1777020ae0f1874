"""Whole models over the Triton kernels, in the interpreter: prefill and decode give the torch backend's tokens."""

import pytest
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import OpenModel, open_model
from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.model_store import fetch_smollm2
from kvxray_engine.step_batch import SamplingParams
from kvxray_kernels.cache_format import CACHE_FORMATS
from kvxray_kernels.torch_backend import TorchBackend
from kvxray_kernels.triton_backend import TritonBackend

from tests.engine.model_driver import Driver


def told_by(
    backend: type[TorchBackend | TritonBackend],
    opened: OpenModel,
    cache: str,
    prompts: list[list[int]],
    max_tokens: int,
) -> tuple[list[list[int]], dict[int, float]]:
    """Tokens of prompts that run together in blocks of 8 and chunks of 5, and the likeliest scores of the last step."""
    cache_format = CACHE_FORMATS[cache]
    dtype = opened.model.dtype if cache_format.is_quantised else None
    runner = ModelRunner(opened.model, backend(opened.cache_shape(16, 8), cache_format, dtype))
    driver = Driver(runner, chunk=5)
    for prompt in prompts:
        driver.add(prompt, SamplingParams(max_tokens=max_tokens, logprobs=5))
    return driver.run(), dict(runner.logprobs["0"].top)


def assert_equal_tokens(opened: OpenModel, cache: str, prompts: list[list[int]], max_tokens: int) -> None:
    tokens, scores = told_by(TorchBackend, opened, cache, prompts, max_tokens)
    same_tokens, same_scores = told_by(TritonBackend, opened, cache, prompts, max_tokens)
    assert same_tokens == tokens
    assert same_scores == pytest.approx(scores, abs=1e-3), "far below what lies between two likely tokens"


@pytest.mark.model
def test_smollm2_says_the_same() -> None:
    try:
        fetch_smollm2()
    except UserError as error:
        pytest.skip(f"SmolLM2 cannot be had on this machine: {error}")
    opened = open_model("smollm2")
    prompt = opened.tokenizer.encode("The capital of France is the city of")
    assert len(prompt) == 8
    assert_equal_tokens(opened, "float32", [prompt], max_tokens=4)


@pytest.mark.parametrize("cache", ["float32", "fp8_e4m3", "int8", "int4"])
def test_the_tiny_model_says_the_same_over_any_cache(cache: str) -> None:
    """Two prompts of different length, so that prefill and decode meet in a step."""
    opened = open_model("tiny")
    prompts = [opened.tokenizer.encode(text) for text in ("The cache", "A block of it")]
    assert_equal_tokens(opened, cache, prompts, max_tokens=4)
