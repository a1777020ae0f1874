"""Writes keys and values of one layer to their slots in the paged cache, in any cache format.

One program writes a few heads of one token, its key and its value. A slot counts the cache's tokens from its start
(block_id * block_size + offset), so it is a row of the contiguous cache, whatever the block size; slot -1 writes
nothing. Offsets are int64: a cache may have more than 2**31 numbers. k and v may be slices of one qkv tensor.

The scatter by slot mapping is vLLM's reshape_and_cache (arXiv 2309.06180, section 5.1), with the rounding in it.
"""

import torch
import triton
import triton.language as tl

from kvxray_kernels.cache_format import CacheFormat
from kvxray_kernels.triton_kernels.rows import as_bytes, tile_heads, tile_warps, write_heads


def store_kv(
    k: torch.Tensor,  # [tokens, num_kv_heads, head_dim], the last dimension contiguous
    v: torch.Tensor,
    key_cache: torch.Tensor,  # of one layer: [num_blocks, block_size, num_kv_heads, items], contiguous
    value_cache: torch.Tensor,
    key_scales: torch.Tensor | None,  # of one layer: [num_blocks, block_size, num_kv_heads, scales], contiguous
    value_scales: torch.Tensor | None,
    slot_mapping: torch.Tensor,  # int64 [tokens]
    cache_format: CacheFormat,
) -> None:
    tokens, num_heads, head_dim = k.shape
    assert k.stride(2) == v.stride(2) == 1, "a head must be contiguous"
    assert cache_format.is_quantised or k.dtype == v.dtype == cache_format.storage_dtype, "nobody would convert"
    assert slot_mapping.shape == (tokens,), "every token has a slot, or -1"
    if tokens == 0:
        return
    heads = tile_heads(num_heads, head_dim)
    store_kv_kernel[(tokens, triton.cdiv(num_heads, heads))](
        k,
        v,
        as_bytes(key_cache),
        as_bytes(value_cache),
        key_scales,
        value_scales,
        slot_mapping,
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        NUM_HEADS=num_heads,
        HEAD_DIM=head_dim,
        FORMAT=cache_format.name,
        HEADS=heads,
        DIM=triton.next_power_of_2(head_dim),
        num_warps=tile_warps(num_heads, head_dim),
    )


@triton.jit
def store_kv_kernel(
    k_ptr: tl.tensor,
    v_ptr: tl.tensor,
    key_cache_ptr: tl.tensor,
    value_cache_ptr: tl.tensor,
    key_scales_ptr: tl.tensor,
    value_scales_ptr: tl.tensor,
    slot_mapping_ptr: tl.tensor,
    k_token_stride: tl.tensor,
    k_head_stride: tl.tensor,
    v_token_stride: tl.tensor,
    v_head_stride: tl.tensor,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    FORMAT: tl.constexpr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token).to(tl.int64)
    if slot >= 0:
        k = k_ptr + token * k_token_stride
        v = v_ptr + token * v_token_stride
        write_heads(k, k_head_stride, key_cache_ptr, key_scales_ptr, slot, NUM_HEADS, HEAD_DIM, FORMAT, HEADS, DIM)
        write_heads(v, v_head_stride, value_cache_ptr, value_scales_ptr, slot, NUM_HEADS, HEAD_DIM, FORMAT, HEADS, DIM)
