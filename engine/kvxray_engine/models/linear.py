"""Matrices that rows are multiplied with, each kept in the form that is fastest to read: plain, packed, or as int8.

Nearly all of a decode step is the reading of these. On x86 torch's plain product leaves half of the memory's bandwidth
unused; oneDNN's, over weights in blocks of its own, takes 17 instead of 25 ms for SmolLM2's layers at one row, 16
instead of 36 at four, 27 instead of 60 at sixteen, and half at 512 (one core of a Zen 5, float32). Where its operators
are missing, everything stays plain. What lost:
transposed weights (19 ms at one row, 57 at sixteen), MKL's packed ones (18 and 59), and oneDNN's own residual sums and
SiLU inside the product (slower than torch's after it).

int8: one scale for each output, weight = scale * number, rounded to nearest. Only weights are quantised; products run
in bfloat16, which holds the numbers exactly. That takes 3.0 ms where packed float32 takes 6.1 (12 layers, one row), and
as long at sixteen rows. The same torch operator on float32 or float16 rows takes 28 ms. SmolLM2 then chooses the same
most likely token at 95 % of 500 places of a text, whose perplexity goes from 64.91 to 64.99.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
import torch.nn.functional as F
from kvxray_kernels.packed_product import PackedMatrix, can_pack

QUANTIZATIONS: Final = ("int8",)
# Below this a product takes less time than finding its way to oneDNN.
MIN_PACKED_ITEMS: Final = 1 << 16
# Rows that blocks are laid out for. Any number is served; made for one row they take twice as long at four and sixteen.
PACKED_FOR_ROWS: Final = 16
# With more it is faster to widen the numbers to bfloat16 first and multiply as usual.
MAX_INT8_ROWS: Final = 16
# The operator for few rows reads so many inputs at a time, and past the end where that does not come out even.
INT8_INPUTS: Final = 16


class Linear(Protocol):
    """x [rows, inputs] to [rows, outputs]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    @property
    def num_bytes(self) -> int: ...


MakeLinear = Callable[[torch.Tensor, torch.Tensor | None], Linear]
"""From a weight [outputs, inputs] and a bias."""


@dataclass(frozen=True, slots=True)
class PlainLinear:
    """A matrix as it is."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)

    @property
    def num_bytes(self) -> int:
        return self.weight.nbytes


class PackedLinear:
    """A matrix in oneDNN's blocks."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._matrix = PackedMatrix(weight, PACKED_FOR_ROWS, bias)
        self.num_bytes = weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._matrix(x)


class Int8Linear:
    """A matrix of int8 with a scale for each output."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        scales = weight.float().abs().amax(dim=1).clamp_(min=torch.finfo(torch.float32).tiny) / 127
        self.numbers = (weight.float() / scales[:, None]).round_().to(torch.int8)
        self.scales = scales
        self._bias = bias
        self._ones = torch.ones_like(scales, dtype=torch.bfloat16)  # the operator's scales: ours are finer
        self.num_bytes = self.numbers.nbytes + self.scales.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.bfloat16()
        if x.shape[0] <= MAX_INT8_ROWS and x.device.type == "cpu" and x.shape[1] % INT8_INPUTS == 0:
            product = torch._weight_int8pack_mm(rows, self.numbers, self._ones)
        else:
            product = F.linear(rows, self.numbers.bfloat16())
        product = product.float().mul_(self.scales)
        return (product if self._bias is None else product.add_(self._bias)).to(x.dtype)


def packed_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """Packed if that pays."""
    if weight.device.type == "cpu" and weight.numel() >= MIN_PACKED_ITEMS and can_pack():
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)
