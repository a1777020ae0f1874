"""Decode attention: one query token a sequence over its paged context, cut into splits that run side by side.

Paged attention (Kwon et al., arXiv 2309.06180) with the query heads of one kv head packed as rows of one matrix, and
split-KV (Flash-Decoding). Grid: (sequences, kv heads, splits). A program attends its rows over its part of the context;
where there is one split it writes the result, else a partial one that merge_splits finishes.

Each sequence's own span, what its window sees of it and what no cascade has taken, is cut into equal splits of whole
tiles. A short sequence leaves the last splits empty: their partial result is 0 with maximum -inf.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvxray_kernels.triton_kernels.attend_span import attend_span, load_rows, store_output, store_partial
from kvxray_kernels.triton_kernels.operands import LayerCache, Partials, Scores, shared_arguments
from kvxray_kernels.triton_kernels.tiles import tiles_for


@triton.jit(do_not_specialize=["table_stride", "window", "splits", "slots"])
def paged_decode_kernel(
    q_ptr, out_ptr, partial_ptr, maxima_ptr, sums_ptr, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, sinks_ptr,
    table_ptr, context_lens_ptr, suffix_starts_ptr, q_stride, table_stride, scale, softcap, window, splits, slots,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ITEMS: tl.constexpr, PADDED: tl.constexpr, NUM_SCALES: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    IS_PARTIAL: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    GROUP: tl.constexpr = HEADS // KV_HEADS

    context_len = tl.load(context_lens_ptr + sequence)
    first = tl.maximum(context_len - window, 0)
    if suffix_starts_ptr is not None:
        first = tl.maximum(first, tl.load(suffix_starts_ptr + sequence))
    tokens_each = tl.cdiv(tl.cdiv(context_len - first, TILE), splits) * TILE
    start = first + split * tokens_each
    stop = tl.minimum(start + tokens_each, context_len)

    row = tl.arange(0, ROWS)
    is_live = row < GROUP
    head = kv_head * GROUP + row
    token = sequence + row * 0
    q_rows = token.to(tl.int64) * q_stride + head * HEAD_DIM
    q_low = load_rows(q_ptr, q_rows, is_live, ITEMS, PADDED).to(DOT)
    q_high = q_low
    if ITEMS < HEAD_DIM:
        q_high = load_rows(q_ptr, q_rows + ITEMS, is_live, ITEMS, PADDED).to(DOT)
    low, high, maximum, total = attend_span(
        q_low, q_high, row * 0 + start, row * 0 + stop - 1, start, stop,
        table_ptr + sequence.to(tl.int64) * table_stride,
        key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, kv_head, scale, softcap,
        KV_HEADS, BLOCK_SIZE, ITEMS, PADDED, NUM_SCALES, HAS_SOFTCAP, ROWS, TILE, DOT, PRECISION,
    )  # fmt: skip
    if IS_PARTIAL:
        store_partial(
            partial_ptr, maxima_ptr, sums_ptr, low, high, maximum, total, token, head, is_live, split, slots,
            HEADS, HEAD_DIM, ITEMS, PADDED,
        )  # fmt: skip
    else:
        store_output(
            out_ptr, low, high, maximum, total, sinks_ptr, token, head, is_live, HEADS * HEAD_DIM,
            HEAD_DIM, ITEMS, PADDED,
        )  # fmt: skip


def paged_decode(
    q: torch.Tensor,
    out: torch.Tensor,
    cache: LayerCache,
    scores: Scores,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    splits: int = 1,
    partials: Partials | None = None,
    suffix_starts: torch.Tensor | None = None,
) -> None:
    """Attention of the first tokens of q [tokens, heads, head_dim], one for each of `context_lens`.

    Writes `out`; or `splits` partial results into the first slots of `partials`, if given. `suffix_starts` [sequences]
    says how many tokens of each sequence somebody else attends.
    """
    assert partials is not None or (splits == 1 and suffix_starts is None), "a part of the context is not the result"
    tiles = tiles_for("decode", q.dtype, q.shape[2], q.shape[1] // cache.num_kv_heads)
    paged_decode_kernel[(context_lens.shape[0], cache.num_kv_heads, splits)](
        **shared_arguments(q, cache, scores, tiles),
        out_ptr=out,
        sinks_ptr=scores.sinks,
        **Partials.arguments(partials),
        table_ptr=block_tables,
        context_lens_ptr=context_lens,
        suffix_starts_ptr=suffix_starts,
        table_stride=block_tables.stride(0),
        splits=splits,
        IS_PARTIAL=partials is not None,
        **tiles.options,
    )
