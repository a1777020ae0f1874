"""Prefill attention: chunks of query tokens over the paged context that they end, any lengths in one launch.

FlashAttention-2 (arXiv 2307.08691) over a block table, causal. Grid: (query tiles, kv heads). A tile is a few
consecutive query tokens of one sequence times the query heads of one kv head, packed as rows of one matrix. The host
lists the tiles: no program is empty, and none has to search for its sequence.

Each row sees up to its own position and as far back as the window; a tile walks what any of its rows sees.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvxray_kernels.triton_kernels.attend_span import attend_span, load_rows, store_output
from kvxray_kernels.triton_kernels.operands import LayerCache, Scores, shared_arguments
from kvxray_kernels.triton_kernels.tiles import tiles_for


@triton.jit(do_not_specialize=["table_stride", "window"])
def paged_prefill_kernel(
    q_ptr, out_ptr, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, sinks_ptr,
    tiles_ptr, table_ptr, q_stride, table_stride, scale, softcap, window,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ITEMS: tl.constexpr, PADDED: tl.constexpr, NUM_SCALES: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    GROUP: tl.constexpr = HEADS // KV_HEADS
    tile = tiles_ptr + tl.program_id(0) * 4
    kv_head = tl.program_id(1)
    sequence = tl.load(tile)
    first_token = tl.load(tile + 1)
    first_position = tl.load(tile + 2)
    num_tokens = tl.load(tile + 3)

    row = tl.arange(0, ROWS)
    is_live = row < num_tokens * GROUP
    token = first_token + row // GROUP
    head = kv_head * GROUP + row % GROUP
    last_seen = tl.where(is_live, first_position + row // GROUP, -1)
    start = tl.maximum(first_position - window + 1, 0)
    q_rows = token.to(tl.int64) * q_stride + head * HEAD_DIM
    q_low = load_rows(q_ptr, q_rows, is_live, ITEMS, PADDED).to(DOT)
    q_high = q_low
    if ITEMS < HEAD_DIM:
        q_high = load_rows(q_ptr, q_rows + ITEMS, is_live, ITEMS, PADDED).to(DOT)
    low, high, maximum, total = attend_span(
        q_low, q_high, last_seen - window + 1, last_seen, start, first_position + num_tokens,
        table_ptr + sequence.to(tl.int64) * table_stride,
        key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, kv_head, scale, softcap,
        KV_HEADS, BLOCK_SIZE, ITEMS, PADDED, NUM_SCALES, HAS_SOFTCAP, ROWS, TILE, DOT, PRECISION,
    )  # fmt: skip
    store_output(
        out_ptr, low, high, maximum, total, sinks_ptr, token, head, is_live, HEADS * HEAD_DIM, HEAD_DIM, ITEMS, PADDED
    )


def paged_prefill(
    q: torch.Tensor,
    out: torch.Tensor,
    cache: LayerCache,
    scores: Scores,
    block_tables: torch.Tensor,
    query_tiles: torch.Tensor,
) -> None:
    """Attention of q [tokens, heads, head_dim], written to `out`, for the query tokens that `query_tiles` lists.

    `query_tiles` int32 [tiles, 4]: sequence, first query token, its position in the sequence, number of query tokens;
    at most `query_tile_tokens` of them.
    """
    tiles = tiles_for("prefill", q.dtype, q.shape[2], q.shape[1] // cache.num_kv_heads)
    paged_prefill_kernel[(query_tiles.shape[0], cache.num_kv_heads)](
        **shared_arguments(q, cache, scores, tiles),
        out_ptr=out,
        sinks_ptr=scores.sinks,
        tiles_ptr=query_tiles,
        table_ptr=block_tables,
        table_stride=block_tables.stride(0),
        **tiles.options,
    )
