"""Quantises whole rows to a cache format: what `store_kv` does, to memory of its own instead of slots.

One program quantises a few heads of one token; `rows.py` says how and what is masked.
"""

import torch
import triton
import triton.language as tl

from kvxray_kernels.cache_format import SCALE_DTYPE, CacheFormat
from kvxray_kernels.triton_kernels.rows import as_bytes, tile_heads, tile_warps, write_heads


def quantise(rows: torch.Tensor, cache_format: CacheFormat) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Items [tokens, heads, items] and scales [tokens, heads, scales] of rows [tokens, heads, head_dim].

    The last dimension of rows must be contiguous. A format that is not quantised takes rows of its own dtype only.
    """
    tokens, num_heads, head_dim = rows.shape
    assert rows.stride(2) == 1, "a head must be contiguous"
    assert cache_format.is_quantised or rows.dtype == cache_format.storage_dtype, "nobody would convert"
    items = head_dim // cache_format.values_per_item
    stored = torch.empty((tokens, num_heads, items), dtype=cache_format.storage_dtype, device=rows.device)
    scales = None
    if cache_format.num_scales:
        scales = torch.empty((tokens, num_heads, cache_format.num_scales), dtype=SCALE_DTYPE, device=rows.device)
    if tokens:
        heads = tile_heads(num_heads, head_dim)
        quantise_kernel[(tokens, triton.cdiv(num_heads, heads))](
            rows,
            as_bytes(stored),
            scales,
            rows.stride(0),
            rows.stride(1),
            NUM_HEADS=num_heads,
            HEAD_DIM=head_dim,
            FORMAT=cache_format.name,
            HEADS=heads,
            DIM=triton.next_power_of_2(head_dim),
            num_warps=tile_warps(num_heads, head_dim),
        )
    return stored, scales


@triton.jit
def quantise_kernel(
    rows_ptr: tl.tensor,
    stored_ptr: tl.tensor,
    scales_ptr: tl.tensor,
    token_stride: tl.tensor,
    head_stride: tl.tensor,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    FORMAT: tl.constexpr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    source = rows_ptr + token * token_stride
    write_heads(source, head_stride, stored_ptr, scales_ptr, token, NUM_HEADS, HEAD_DIM, FORMAT, HEADS, DIM)
