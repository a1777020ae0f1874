"""What every quantised format must store: the rules of `kvxray_kernels.cache_format`, one number at a time.

Slow and obvious on purpose, in Python's own numbers: float32 and float16 are what `struct` packs, and the nearest fp8
number is looked for in the list of them all. It shares nothing with the code it judges.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import torch

from kvxray_kernels.cache_format import FP8_E4M3, INT4, INT8, SCALE_DTYPE, CacheFormat

LARGEST_FLOAT16 = 65504.0

# Codes 0 to 126 of fp8 e4m3, in order of size: subnormals are multiples of 2**-9, then 8 numbers to each power of two.
FP8_NUMBERS = [code * 2.0**-9 if code < 8 else (8 + code % 8) * 2.0 ** (code // 8 - 10) for code in range(127)]


def reference_quantise(rows: torch.Tensor, cache_format: CacheFormat) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Stored items and scales of rows [..., head_dim], as the cache holds them."""
    if not cache_format.is_quantised:
        return rows.clone(), None
    quantise_row = {FP8_E4M3: _fp8_row, INT8: _int8_row, INT4: _int4_row}[cache_format]
    results = [quantise_row(row) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
    items = torch.tensor([r[0] for r in results], dtype=torch.uint8).view(cache_format.storage_dtype)
    items = items.reshape(*rows.shape[:-1], rows.shape[-1] // cache_format.values_per_item)
    if not cache_format.num_scales:
        return items, None
    scales = torch.tensor([r[1] for r in results], dtype=torch.float64).to(SCALE_DTYPE)
    return items, scales.reshape(*rows.shape[:-1], cache_format.num_scales)


def reference_dequantise(stored: torch.Tensor, scales: torch.Tensor | None, cache_format: CacheFormat) -> torch.Tensor:
    """The numbers that stored items [..., items] and scales [..., scales] stand for: float64 [..., head_dim]."""
    if cache_format == FP8_E4M3:
        positive = [*FP8_NUMBERS, math.nan]
        of_code = torch.tensor([*positive, *(-x for x in positive)], dtype=torch.float64)
        return of_code[stored.view(torch.uint8).long()]
    if cache_format == INT8:
        assert scales is not None, "int8 has a scale"
        return stored.double() * scales.double()
    if cache_format == INT4:
        assert scales is not None, "int4 has a scale and a minimum"
        numbers = torch.cat([stored % 16, stored // 16], dim=-1).double()
        return numbers * scales[..., :1].double() + scales[..., 1:].double()
    return stored.double()


def _fp8_row(row: Sequence[float]) -> tuple[list[int], list[float]]:
    return [_fp8_code(x) for x in row], []


def _fp8_code(x: float) -> int:
    sign = 128 if math.copysign(1.0, x) < 0 else 0
    if math.isnan(x):
        return sign + 127
    size = min(abs(x), 448.0)
    return sign + min(range(127), key=lambda code: (abs(FP8_NUMBERS[code] - size), code % 2))


def _int8_row(row: Sequence[float]) -> tuple[list[int], list[float]]:
    if not all(math.isfinite(x) for x in row):
        return [0] * len(row), [math.nan]
    scale = _float16(_float32(max(abs(x) for x in row) / 127))
    codes = [0 if scale == 0 else max(-127, min(127, round(_float32(x / scale)))) for x in row]
    return [code % 256 for code in codes], [scale]


def _int4_row(row: Sequence[float]) -> tuple[list[int], list[float]]:
    half = len(row) // 2
    if not all(math.isfinite(x) for x in row):
        return [0] * half, [math.nan, math.nan]
    scale = _float16(_float32(_float32(max(row) - min(row)) / 15))
    minimum = _float16(min(row) + 0.0)  # never -0
    codes = [0 if scale == 0 else _int4_code(x, scale, minimum) for x in row]
    return [codes[d] + 16 * codes[d + half] for d in range(half)], [scale, minimum]


def _int4_code(x: float, scale: float, minimum: float) -> int:
    quotient = _float32(_float32(x - minimum) / scale)
    return round(max(0.0, min(15.0, quotient)))  # Python rounds half to even


def _float32(x: float) -> float:
    """The nearest float32 number; infinity where there is none."""
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _float16(x: float) -> float:
    """The nearest float16 number, never beyond the largest."""
    return float(struct.unpack("e", struct.pack("e", max(-LARGEST_FLOAT16, min(LARGEST_FLOAT16, x))))[0])
