"""The fp8 writer on the device against torch's own cast, on every number where they could differ."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from kvxray_kernels.cache_format import FP8_E4M3
from kvxray_kernels.triton_kernels.quantise import quantise

from benchmarks.on_gpu.correctness import Check

LARGEST = 448.0
HEAD_DIM = 64


def fp8_checks(device: torch.device, count: int = 1 << 16) -> Iterator[Check]:
    """`count`: of each kind of input; 65,536 are all that 16 bits can hold."""
    inputs = {
        f"{count} bfloat16 numbers": _patterns(count).view(torch.bfloat16),
        f"{count} float16 numbers": _patterns(count).view(torch.float16),
        "float32 at and beside every tie": ties(),
    }
    for name, numbers in inputs.items():
        rows = _as_rows(numbers).to(device)
        stored, _ = quantise(rows, FP8_E4M3)
        by_torch = rows.float().clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)  # the cast itself does not saturate
        wrong = (stored.view(torch.uint8) != by_torch.view(torch.uint8)) & ~rows.isnan()
        lost_nan = rows.isnan() & ~stored.float().isnan()
        yield Check(f"fp8 rounding, {name}", (wrong | lost_nan).float().mean().item(), 0)


def ties() -> torch.Tensor:
    """float32: the fp8 numbers, the middle between each two, both with their neighbours, in either sign."""
    numbers = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    middles = (numbers[1:] + numbers[:-1]) / 2
    both = torch.cat([numbers, middles, torch.tensor([464.0, 480.0, 1e30, torch.inf])])
    beside = [both, torch.nextafter(both, torch.tensor(torch.inf)), torch.nextafter(both, torch.tensor(-torch.inf))]
    positive = torch.cat(beside)
    return torch.cat([positive, -positive])


def _patterns(count: int) -> torch.Tensor:
    step = (1 << 16) // count
    return torch.arange(0, 1 << 16, step, dtype=torch.int32).to(torch.int16)


def _as_rows(numbers: torch.Tensor) -> torch.Tensor:
    """[tokens, 2, head_dim], filled up with zeros."""
    missing = -len(numbers) % (2 * HEAD_DIM)
    return torch.cat([numbers, numbers.new_zeros(missing)]).view(-1, 2, HEAD_DIM)
