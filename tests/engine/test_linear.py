"""Matrices in other forms give what the plain ones give: packed to rounding, int8 to half a step of each weight."""

import pytest
import torch
import torch.nn.functional as F
from kvxray_engine.model_loading import OpenModel, open_model
from kvxray_engine.models import linear
from kvxray_engine.models.linear import MAX_INT8_ROWS, Int8Linear, PackedLinear, PlainLinear, packed_linear
from kvxray_engine.models.llama import LlamaModel
from kvxray_engine.step_batch import SamplingParams
from kvxray_kernels.packed_product import can_pack

from tests.engine.model_driver import generate

ROWS = [1, 3, MAX_INT8_ROWS, MAX_INT8_ROWS + 1, 70]
PROMPTS = [list(range(1, 30)), [7, 7, 200, 3], list(range(250, 100, -2))]
GREEDY = SamplingParams(max_tokens=12)
needs_packing = pytest.mark.skipif(not can_pack(), reason="this torch, or this processor, has no packed product")


def matrix(outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(outputs, inputs, generator=random), torch.randn(outputs, generator=random)


def rows(number: int, inputs: int) -> torch.Tensor:
    return torch.randn(number, inputs, generator=torch.Generator().manual_seed(1))


def built_with(make_linear) -> OpenModel:
    opened = open_model("tiny")
    return OpenModel(LlamaModel(opened.model.config, opened.model.weights, make_linear), opened.tokenizer)


def tokens_of(opened: OpenModel) -> list[list[int]]:
    return generate(opened.with_cache(40, 16, "float32"), PROMPTS, GREEDY, chunk=16)


@needs_packing
@pytest.mark.parametrize("number", ROWS)
@pytest.mark.parametrize("biased", [False, True])
@torch.inference_mode()
def test_a_packed_matrix_gives_the_plain_product(number, biased):
    weight, bias = matrix(67, 130)
    x, chosen = rows(number, 130), bias if biased else None
    exact = F.linear(x.double(), weight.double(), None if chosen is None else chosen.double())
    # A sum of 130 products of size 1, each rounded to 24 bits.
    torch.testing.assert_close(PackedLinear(weight, chosen)(x).double(), exact, rtol=0, atol=130 * 2**-22)


@needs_packing
@torch.inference_mode()
def test_a_packed_matrix_does_not_need_the_plain_one():
    weight, _ = matrix(64, 64)
    packed = PackedLinear(weight)
    before = packed(rows(2, 64))
    weight.fill_(torch.nan)
    assert torch.equal(packed(rows(2, 64)), before)


@pytest.mark.parametrize("number", ROWS)
@pytest.mark.parametrize("inputs", [130, 144])
@torch.inference_mode()
def test_int8_is_the_product_with_its_own_weights_in_bfloat16(number, inputs):
    weight, bias = matrix(67, inputs)
    x, int8 = rows(number, inputs), Int8Linear(weight, bias)
    assert int8(x).dtype == x.dtype
    kept = int8.numbers.double() * int8.scales.double()[:, None]
    assert bool(((kept - weight.double()).abs() <= 0.5001 * int8.scales.double()[:, None]).all())
    exact = F.linear(x.bfloat16().double(), kept, bias.double())
    # The product is rounded to 8 bits, and is below 64.
    torch.testing.assert_close(int8(x).double(), exact, rtol=0, atol=64 * 2**-8)


@torch.inference_mode()
def test_int8_of_a_row_of_zeros_is_zero():
    weight, _ = matrix(8, 32)
    weight[3] = 0
    assert Int8Linear(weight)(rows(2, 32))[:, 3].tolist() == [0.0, 0.0]


def test_small_matrices_stay_plain():
    assert isinstance(packed_linear(torch.ones(8, 8)), PlainLinear)
    assert packed_linear(torch.ones(8, 8)).num_bytes == 256
    large = torch.ones(512, 512)
    assert isinstance(packed_linear(large), PackedLinear if can_pack() else PlainLinear)


@needs_packing
def test_a_packed_model_writes_what_the_plain_one_writes(monkeypatch):
    expected = tokens_of(built_with(PlainLinear))
    monkeypatch.setattr(linear, "MIN_PACKED_ITEMS", 0)
    packed = built_with(packed_linear)
    assert isinstance(packed.model._layers[0].down, PackedLinear)
    assert tokens_of(packed) == expected
    packed.model.release_matrices()
    assert packed.model.weights.layers[1].down.is_meta
    assert tokens_of(packed) == expected


def test_an_int8_model_is_smaller_and_its_scores_are_close():
    plain, int8 = built_with(PlainLinear), built_with(Int8Linear)
    assert plain.model.num_bytes == plain.model.weights.num_bytes
    saved = plain.model.num_bytes - int8.model.num_bytes
    matrices = sum(one.num_bytes for layer in plain.model._layers for one in layer.all)
    assert 0.7 * matrices < saved < 0.75 * matrices
    logits = [logits_of(opened) for opened in (plain, int8)]
    # Half a step of 127 and the 8 bits of bfloat16, seven times over two layers, against scores of size 8.
    assert (logits[0] - logits[1]).square().mean().sqrt() < 0.02 * logits[0].square().mean().sqrt()
    assert not torch.equal(*logits)


@torch.inference_mode()
def logits_of(opened: OpenModel) -> torch.Tensor:
    runner = opened.with_cache(4, 32, "float32")
    tokens = torch.tensor(PROMPTS[0])
    positions = torch.arange(len(tokens))
    metadata = runner.backend.build_metadata([len(tokens)], [len(tokens)], [[1]])
    hidden = runner.model.forward(tokens, positions, positions + 32, metadata, runner.backend)
    return runner.model.logits(hidden)
