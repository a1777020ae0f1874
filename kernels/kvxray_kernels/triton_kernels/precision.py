"""In which type and how exactly the kernels multiply, on a GPU and in the interpreter."""

from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl

INTERPRETED: Final = bool(triton.knobs.runtime.interpret)
"""Decided when kernels are decorated: a process interprets all of them or compiles all of them."""

TRITON_DTYPES: Final = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def dot_dtype(dtype: torch.dtype) -> Any:
    """The type that matrix products of rows of `dtype` take: their own, which tensor cores know.

    The interpreter multiplies the bit patterns of bfloat16 without a word: it gets float32, which holds all of them.
    """
    return tl.float32 if INTERPRETED else TRITON_DTYPES[dtype]


def dot_precision(dtype: torch.dtype, head_dim: int) -> str:
    """Of float32 products on a GPU: three tf32 products on tensor cores, which keep about 21 of 24 bits.

    One tf32 product, Triton's default, would keep 11. Heads of more than 128 are multiplied in plain float32 ("ieee"):
    queries split in three tf32 parts would not fit the registers.
    """
    return "tf32x3" if dtype == torch.float32 and head_dim <= 128 and not INTERPRETED else "ieee"
