"""Attention of many sequences' query tokens over the prefix that they share, which is read once for all of them.

Cascade attention (FlashInfer, arXiv 2501.01005; Hydragen, arXiv 2402.05099). Grid: (row tiles, kv heads, splits). The
rows of a tile are the query tokens of some sequences of one group, one each, times the query heads of one kv head. The
prefix of the group is cut into splits; each leaves a partial result in the slots after paged_decode's, and merge_splits
joins both.

Every query sees all of the prefix, but for what its window leaves out: sequences of different lengths see different
parts, and what none of a tile's rows sees is not read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvxray_kernels.triton_kernels.attend_span import attend_span, load_rows, store_partial
from kvxray_kernels.triton_kernels.operands import LayerCache, Partials, Scores, shared_arguments
from kvxray_kernels.triton_kernels.tiles import tiles_for


@triton.jit(do_not_specialize=["table_stride", "window", "splits", "slots", "first_slot"])
def cascade_kernel(
    q_ptr, partial_ptr, maxima_ptr, sums_ptr, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr,
    tiles_ptr, members_ptr, table_ptr, context_lens_ptr, q_stride, table_stride, scale, softcap, window,
    splits, slots, first_slot,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ITEMS: tl.constexpr, PADDED: tl.constexpr, NUM_SCALES: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    GROUP: tl.constexpr = HEADS // KV_HEADS
    tile = tiles_ptr + tl.program_id(0) * 3
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    first_member = tl.load(tile)
    num_members = tl.load(tile + 1)
    prefix_len = tl.load(tile + 2)

    row = tl.arange(0, ROWS)
    is_live = row < num_members * GROUP
    sequence = tl.load(members_ptr + first_member + row // GROUP, mask=is_live, other=0)
    head = kv_head * GROUP + row % GROUP
    context_len = tl.load(context_lens_ptr + sequence, mask=is_live, other=0)
    first_seen = tl.where(is_live, tl.maximum(context_len - window, 0), prefix_len)
    first = tl.minimum(tl.min(first_seen, 0), prefix_len)
    tokens_each = tl.cdiv(tl.cdiv(prefix_len - first, TILE), splits) * TILE
    start = first + split * tokens_each
    stop = tl.minimum(start + tokens_each, prefix_len)

    q_rows = sequence.to(tl.int64) * q_stride + head * HEAD_DIM
    q_low = load_rows(q_ptr, q_rows, is_live, ITEMS, PADDED).to(DOT)
    q_high = q_low
    if ITEMS < HEAD_DIM:
        q_high = load_rows(q_ptr, q_rows + ITEMS, is_live, ITEMS, PADDED).to(DOT)
    low, high, maximum, total = attend_span(
        q_low, q_high, first_seen, row * 0 + prefix_len - 1, start, stop,
        table_ptr + tl.load(members_ptr + first_member).to(tl.int64) * table_stride,
        key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, kv_head, scale, softcap,
        KV_HEADS, BLOCK_SIZE, ITEMS, PADDED, NUM_SCALES, HAS_SOFTCAP, ROWS, TILE, DOT, PRECISION,
    )  # fmt: skip
    store_partial(
        partial_ptr, maxima_ptr, sums_ptr, low, high, maximum, total, sequence, head, is_live,
        first_slot + split, slots,
        HEADS, HEAD_DIM, ITEMS, PADDED,
    )  # fmt: skip


def cascade(
    q: torch.Tensor,
    partials: Partials,
    cache: LayerCache,
    scores: Scores,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    members: torch.Tensor,
    row_tiles: torch.Tensor,
    *,
    first_slot: int,
) -> None:
    """Attention of decode tokens over their groups' shared prefixes, into the slots of `partials` from `first_slot` on.

    `members` int32: the sequences of all groups, group after group; sequence i's query token is token i of q.
    `row_tiles` int32 [tiles, 3]: first member, number of members, tokens of the shared prefix.
    """
    tiles = tiles_for("cascade", q.dtype, q.shape[2], q.shape[1] // cache.num_kv_heads)
    splits = partials.maxima.shape[2] - first_slot
    cascade_kernel[(row_tiles.shape[0], cache.num_kv_heads, splits)](
        **shared_arguments(q, cache, scores, tiles),
        **Partials.arguments(partials),
        tiles_ptr=row_tiles,
        members_ptr=members,
        table_ptr=block_tables,
        context_lens_ptr=context_lens,
        table_stride=block_tables.stride(0),
        first_slot=first_slot,
        splits=splits,
        **tiles.options,
    )
