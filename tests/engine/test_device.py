"""Which device the engine takes, with GPUs that are only claimed."""

import importlib.util
from dataclasses import fields, replace

import pytest
import torch
from kvxray_engine.device import CPU, choose_device, default_dtype, why_no_cache
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import open_model
from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.models.llama import LlamaModel
from kvxray_engine.models.weights import LlamaWeights
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence
from kvxray_kernels.cache_format import FLOAT32, FP8_E4M3, INT4
from kvxray_kernels.torch_backend import TorchBackend


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU; says whether it has triton, and whether the GPU knows bfloat16."""

    def claim(triton: bool = True, bf16: bool = True) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if triton else None)

    return claim


def test_auto_is_the_gpu_where_there_is_one_that_can_be_used(gpu, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    gpu(triton=False)
    assert choose_device("auto") == CPU
    gpu()
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cpu") == CPU


def test_a_gpu_that_cannot_be_had_is_one_sentence(gpu, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"^There is no GPU here that torch can use: .*, or choose --device cpu\.$"):
        choose_device("cuda")
    gpu(triton=False)
    with pytest.raises(
        UserError, match=r"^The GPU's kernels need triton, .* pip install .*, or choose --device cpu\.$"
    ):
        choose_device("cuda")
    with pytest.raises(UserError, match="no device called tpu: choose auto, cpu or cuda"):
        choose_device("tpu")


def test_a_gpu_computes_in_bfloat16_where_it_can(gpu) -> None:
    assert default_dtype(CPU) == "float32"
    gpu()
    assert default_dtype(torch.device("cuda", 0)) == "bfloat16"
    gpu(bf16=False)
    assert default_dtype(torch.device("cuda", 0)) == "float32"


def test_what_the_gpu_s_kernels_cannot_keep_is_one_sentence(monkeypatch) -> None:
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    assert why_no_cache(gpu, FP8_E4M3, 64).startswith("This GPU does not know fp8_e4m3: choose int8")
    assert why_no_cache(gpu, INT4, 512).startswith("This model's heads have 512 numbers")
    assert why_no_cache(gpu, INT4, 256) is why_no_cache(CPU, FP8_E4M3, 512) is None
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    assert why_no_cache(gpu, FP8_E4M3, 64) is None


def test_everything_of_a_step_is_where_the_weights_and_the_cache_are() -> None:
    """The meta device stands for a GPU: it has tensors, and nothing that would mix with others."""
    elsewhere = torch.device("meta")
    on_cpu = open_model("tiny")
    weights = on_cpu.model.weights.to(elsewhere)
    assert {tensor.device for tensor in tensors_of(weights)} == {elsewhere}
    assert len(tensors_of(weights)) == len(tensors_of(on_cpu.model.weights))
    model = LlamaModel(on_cpu.model.config, weights)
    runner = ModelRunner(model, TorchBackend(on_cpu.cache_shape(4, 16), FLOAT32, device=elsewhere))
    runner.backend.build_metadata = lambda *step: None
    step = runner._tensors([ScheduledSequence("a", [5, 6], 0, [1], SamplingParams(), True, 0)])
    tensors = [step.token_ids, step.positions, step.slot_mapping, step.last_tokens, model._cos, model._sin]
    assert {tensor.device for tensor in tensors} == {elsewhere}
    assert runner.medium == "GPU"


def test_weights_that_are_there_already_are_not_copied_and_a_tied_head_stays_tied() -> None:
    weights = open_model("tiny").model.weights
    tied = replace(weights, head=weights.embedding)
    moved = tied.to(CPU)
    assert moved.head is moved.embedding is weights.embedding
    assert moved.layers[1].down is weights.layers[1].down
    assert moved.num_bytes == tied.num_bytes


def tensors_of(weights: LlamaWeights) -> list[torch.Tensor]:
    layers = [getattr(layer, field.name) for layer in weights.layers for field in fields(layer)]
    return [weights.embedding, weights.final_norm, weights.head, *(one for one in layers if one is not None)]
