"""Writes heads of one token in a cache format: what `store_kv` and `quantise` have in common.

The rules are those of `kvxray_kernels.cache_format`. A program takes a tile of heads of one token, head_dim padded to a
power of two. Padding is masked: it is neither loaded nor stored, and takes no part in a row's largest or smallest
number. int8 and int4 need that extent before the first number can be written; the tile stays in registers, so every
number is read once. Divisions are IEEE (`div_rn`), as torch's are: the approximate ones would move ties.
"""

import torch
import triton
import triton.language as tl

from kvxray_kernels.triton_kernels.fp8 import to_fp8_e4m3

TILE_VALUES = 1024  # of one program: enough bytes in flight, and few enough registers


def tile_heads(num_heads: int, head_dim: int) -> int:
    """How many heads one program takes: a power of two."""
    return int(min(triton.next_power_of_2(num_heads), max(1, TILE_VALUES // triton.next_power_of_2(head_dim))))


def tile_warps(num_heads: int, head_dim: int) -> int:
    """Warps of one program: about eight values a thread."""
    values = tile_heads(num_heads, head_dim) * triton.next_power_of_2(head_dim)
    return int(max(1, min(4, values // 256)))


def as_bytes(stored: torch.Tensor) -> torch.Tensor:
    """fp8 as the bytes that kernels write; other dtypes as they are."""
    return stored.view(torch.uint8) if stored.dtype == torch.float8_e4m3fn else stored


@triton.jit
def write_heads(
    source_ptr: tl.tensor,
    head_stride: tl.tensor,
    stored_ptr: tl.tensor,
    scales_ptr: tl.tensor,
    row: tl.tensor,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    FORMAT: tl.constexpr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
) -> None:
    """Store the HEADS heads of program_id(1) as their part of row `row`, int64, of contiguous [rows, heads, items]."""
    heads = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    is_head = heads < NUM_HEADS
    source = source_ptr + heads[:, None] * head_stride
    stored_heads = row * NUM_HEADS + heads
    if FORMAT == "int4":
        # A byte holds dimensions d and d + HEAD_DIM / 2: two tiles of half a head each.
        dims = tl.arange(0, DIM // 2)[None, :]
        is_dim = dims < HEAD_DIM // 2
        mask = is_head[:, None] & is_dim
        low = tl.load(source + dims, mask=mask, other=0.0).to(tl.float32)
        high = tl.load(source + HEAD_DIM // 2 + dims, mask=mask, other=0.0).to(tl.float32)
        scale, minimum = _int4_scale(low, high, is_dim)
        packed = _to_int4(low, scale, minimum) | (_to_int4(high, scale, minimum) << 4)
        tl.store(stored_ptr + stored_heads[:, None] * (HEAD_DIM // 2) + dims, packed.to(tl.uint8), mask=mask)
        tl.store(scales_ptr + stored_heads * 2, scale, mask=is_head)
        tl.store(scales_ptr + stored_heads * 2 + 1, minimum, mask=is_head)
    else:
        dims = tl.arange(0, DIM)[None, :]
        mask = is_head[:, None] & (dims < HEAD_DIM)
        stored = stored_ptr + stored_heads[:, None] * HEAD_DIM + dims
        x = tl.load(source + dims, mask=mask, other=0.0)
        if FORMAT == "fp8_e4m3":
            tl.store(stored, to_fp8_e4m3(x.to(tl.float32)), mask=mask)
        elif FORMAT == "int8":
            scale = _int8_scale(x.to(tl.float32))
            tl.store(stored, _to_int8(x.to(tl.float32), scale), mask=mask)
            tl.store(scales_ptr + stored_heads, scale, mask=is_head)
        else:
            tl.store(stored, x, mask=mask)


@triton.jit
def _round_half_to_even(x: tl.tensor) -> tl.tensor:
    """Of float32 numbers below 2**22 in size: 1.5 * 2**23 plus such a number has no room for a fraction."""
    return (x + 12582912.0) - 12582912.0


@triton.jit
def _divided(x: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """x over its row's float16 scale; 0 where the scale is 0 or NaN."""
    wide = scale.to(tl.float32)[:, None]
    usable = wide > 0.0
    return tl.div_rn(tl.where(usable, x, 0.0), tl.where(usable, wide, 1.0))


@triton.jit
def _int8_scale(x: tl.tensor) -> tl.tensor:
    largest = tl.max(tl.where(x == x, tl.abs(x), float("inf")), axis=1)
    scale = tl.minimum(tl.div_rn(largest, 127.0), 65504.0)
    return tl.where(largest < float("inf"), scale, float("nan")).to(tl.float16)


@triton.jit
def _to_int8(x: tl.tensor, scale: tl.tensor) -> tl.tensor:
    quotient = tl.minimum(tl.maximum(_divided(x, scale), -127.0), 127.0)
    return _round_half_to_even(quotient).to(tl.int8)


@triton.jit
def _int4_scale(low: tl.tensor, high: tl.tensor, is_dim: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    inf = float("inf")
    low = tl.where(low == low, low, inf)
    high = tl.where(high == high, high, inf)
    largest = tl.max(tl.where(is_dim, tl.maximum(low, high), -inf), axis=1)
    smallest = tl.min(tl.where(is_dim, tl.minimum(low, high), inf), axis=1)
    finite = (largest < inf) & (smallest > -inf)
    scale = tl.minimum(tl.div_rn(tl.where(finite, largest - smallest, 0.0), 15.0), 65504.0)
    # Adding 0 turns -0 to 0: which of the two a reduction finds depends on its order.
    minimum = tl.minimum(tl.maximum(smallest, -65504.0), 65504.0) + 0.0
    return tl.where(finite, scale, float("nan")).to(tl.float16), tl.where(finite, minimum, float("nan")).to(tl.float16)


@triton.jit
def _to_int4(x: tl.tensor, scale: tl.tensor, minimum: tl.tensor) -> tl.tensor:
    above = tl.where(scale[:, None] > 0.0, x - minimum.to(tl.float32)[:, None], 0.0)
    return _round_half_to_even(tl.minimum(tl.maximum(_divided(above, scale), 0.0), 15.0)).to(tl.int32)
