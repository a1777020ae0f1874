"""How keys and values are stored in the cache: as they are, or quantised.

A quantised format keeps its numbers small in memory only. Queries, keys and values cross the line to a backend in its
dtype, and come back in it:

- fp8_e4m3: x rounded to the nearest of the format's numbers, ties to even, at most 448 in size. No scale is stored.
- int8: round(x / scale) with one scale for each token and head, the largest |x| over 127.
- int4: round((x - minimum) / scale), 0 to 15, with scale = (largest - minimum) / 15 and the minimum for each token and
  head. Dimensions d and d + head_dim / 2 share a byte, the former in the low four bits.

Scales and minima are rounded to float16 first, at most 65504 in size, and numbers are quantised against what was
stored. Arithmetic is float32; rounding is to nearest, ties to even; what is out of range becomes the nearest number in
it. Where the stored scale is 0, every number reads as 0 (int8) or as the minimum (int4). A row with a number that is
not finite has NaN for a scale and reads as NaN, so that an overflow in a model is seen; fp8 keeps each NaN, and turns
infinity into 448.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

SCALE_DTYPE: Final = torch.float16


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """One way to store keys and values."""

    name: str
    storage_dtype: torch.dtype
    values_per_item: int = 1  # of the storage dtype
    num_scales: int = 0  # for each token and head: 1 = scale, 2 = scale and minimum

    @property
    def is_quantised(self) -> bool:
        return self not in (FLOAT32, FLOAT16, BFLOAT16)

    def bytes_per_head(self, head_dim: int) -> int:
        """Bytes of one token's key, or value, in one head, its scales counted."""
        items = head_dim // self.values_per_item
        return items * self.storage_dtype.itemsize + self.num_scales * SCALE_DTYPE.itemsize


FLOAT32: Final = CacheFormat("float32", torch.float32)
FLOAT16: Final = CacheFormat("float16", torch.float16)
BFLOAT16: Final = CacheFormat("bfloat16", torch.bfloat16)
FP8_E4M3: Final = CacheFormat("fp8_e4m3", torch.float8_e4m3fn)
INT8: Final = CacheFormat("int8", torch.int8, num_scales=1)
INT4: Final = CacheFormat("int4", torch.uint8, values_per_item=2, num_scales=2)

CACHE_FORMATS: Final = {f.name: f for f in (FLOAT32, FLOAT16, BFLOAT16, FP8_E4M3, INT8, INT4)}
