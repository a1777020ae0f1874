"""Reads whole rows of a cache format back: what attention does inside its kernels, to memory of its own.

One program reads a few heads of one token, head_dim padded to a power of two; padding is masked. All but int4's
minimum is exact: fp8 and integers are exact in float32, and so is their product with a float16 scale.
"""

import torch
import triton
import triton.language as tl

from kvxray_kernels.cache_format import CacheFormat
from kvxray_kernels.triton_kernels.fp8 import from_fp8_e4m3
from kvxray_kernels.triton_kernels.rows import as_bytes, tile_heads, tile_warps


def dequantise(
    stored: torch.Tensor,  # [tokens, heads, items], contiguous
    scales: torch.Tensor | None,  # [tokens, heads, scales], contiguous
    cache_format: CacheFormat,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Rows [tokens, heads, head_dim] of this dtype."""
    assert all(t is None or t.is_contiguous() for t in (stored, scales)), "the kernel knows no strides"
    tokens, num_heads, items = stored.shape
    head_dim = items * cache_format.values_per_item
    rows = torch.empty((tokens, num_heads, head_dim), dtype=dtype, device=stored.device)
    if tokens:
        heads = tile_heads(num_heads, head_dim)
        dequantise_kernel[(tokens, triton.cdiv(num_heads, heads))](
            as_bytes(stored),
            scales,
            rows,
            NUM_HEADS=num_heads,
            HEAD_DIM=head_dim,
            FORMAT=cache_format.name,
            HEADS=heads,
            DIM=triton.next_power_of_2(head_dim),
            num_warps=tile_warps(num_heads, head_dim),
        )
    return rows


@triton.jit
def dequantise_kernel(
    stored_ptr: tl.tensor,
    scales_ptr: tl.tensor,
    rows_ptr: tl.tensor,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    FORMAT: tl.constexpr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
) -> None:
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    is_head = heads < NUM_HEADS
    heads = (tl.program_id(0).to(tl.int64) * NUM_HEADS + heads)[:, None]
    if FORMAT == "int4":
        dims = tl.arange(0, DIM // 2)[None, :]
        mask = is_head[:, None] & (dims < HEAD_DIM // 2)
        packed = tl.load(stored_ptr + heads * (HEAD_DIM // 2) + dims, mask=mask, other=0)
        scale = tl.load(scales_ptr + heads * 2, mask=is_head[:, None], other=0.0).to(tl.float32)
        minimum = tl.load(scales_ptr + heads * 2 + 1, mask=is_head[:, None], other=0.0).to(tl.float32)
        rows = rows_ptr + heads * HEAD_DIM + dims
        tl.store(rows, _rounded((packed & 15).to(tl.float32) * scale + minimum, rows_ptr), mask=mask)
        tl.store(rows + HEAD_DIM // 2, _rounded((packed >> 4).to(tl.float32) * scale + minimum, rows_ptr), mask=mask)
    else:
        dims = tl.arange(0, DIM)[None, :]
        mask = is_head[:, None] & (dims < HEAD_DIM)
        x = tl.load(stored_ptr + heads * HEAD_DIM + dims, mask=mask, other=0)
        if FORMAT == "fp8_e4m3":
            x = from_fp8_e4m3(x)
        elif FORMAT == "int8":
            x = x.to(tl.float32) * tl.load(scales_ptr + heads, mask=is_head[:, None], other=0.0).to(tl.float32)
        tl.store(rows_ptr + heads * HEAD_DIM + dims, _rounded(x.to(tl.float32), rows_ptr), mask=mask)


@triton.jit
def _rounded(x: tl.tensor, rows_ptr: tl.tensor) -> tl.tensor:
    """float32 to the dtype of the rows, ties to even. Of bfloat16 in integers: Triton's interpreter truncates."""
    dtype: tl.constexpr = rows_ptr.dtype.element_ty
    if dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        kept = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        kept = tl.where(x == x, kept, 0x7FC0)  # a NaN's bits would carry into infinity, or zero
        return kept.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return x.to(dtype)
