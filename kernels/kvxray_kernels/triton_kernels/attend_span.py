"""Attention of some query rows over a span of one sequence's paged context: the loop that all attention kernels share.

Online softmax (Milakov and Gimelshein, arXiv 1805.02867; FlashAttention-2, arXiv 2307.08691) in float32, base 2, over
tiles of keys and values that are gathered token by token through the block table, so a tile need not be a block.

A quantised cache is multiplied as it is stored: small integers and fp8 are exact in float16 and bfloat16, so tensor
cores take them. A token's scale then moves out of the sum over dimensions: into the score for keys, into the weight for
values. int4 keeps dimensions d and d + head_dim / 2 in one byte: two products of half heads; its minimum meets the sum
of the query for keys, and the sum of the weights for values.

What masks what: loads outside the span give 0, so that memory nobody wrote (NaN or not) never meets a product; scores
of tokens that a row does not see are -inf; a row that has seen nothing yet keeps maximum -inf and is never subtracted
from itself.
"""

import triton
import triton.language as tl

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
SMALL: tl.constexpr = tl.constexpr(0.03)


@triton.jit
def load_rows(ptr, rows, is_live, ITEMS: tl.constexpr, PADDED: tl.constexpr):
    """Items [rows, PADDED] at element offsets `rows`; 0 where a row is not live and beyond ITEMS."""
    items = tl.arange(0, PADDED)
    if ITEMS == PADDED:
        tile = tl.load(ptr + rows[:, None] + items[None, :], mask=is_live[:, None], other=0.0)
    else:
        mask = is_live[:, None] & (items < ITEMS)[None, :]
        tile = tl.load(ptr + rows[:, None] + items[None, :], mask=mask, other=0.0)
    return tile


@triton.jit
def store_rows(ptr, rows, is_live, tile, ITEMS: tl.constexpr, PADDED: tl.constexpr):
    items = tl.arange(0, PADDED)
    mask = is_live[:, None] & (items < ITEMS)[None, :]
    tl.store(ptr + rows[:, None] + items[None, :], tile.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def bend_scores(scores, scale, softcap, HAS_SOFTCAP: tl.constexpr):
    """Scores of base 2: scaled, and bounded by softcap * tanh(score / softcap) where there is one.

    tanh by one exponential of a number that is never positive: it cannot overflow. Near 0 that would subtract numbers
    that are almost equal; there the first two terms of its series are closer than float32 tells apart.
    """
    if HAS_SOFTCAP:
        bent = scores * (scale / softcap)
        size = tl.abs(bent)
        decay = tl.exp2(size * (-2.0 * LOG2E))
        size = tl.where(size < SMALL, size * (1.0 - size * size * (1.0 / 3.0)), (1.0 - decay) / (1.0 + decay))
        scores = tl.where(bent < 0, -size, size) * (softcap * LOG2E)
    else:
        scores = scores * (scale * LOG2E)
    return scores


@triton.jit
def softmax_step(maximum, total, scores):
    """The running maximum and sum after a tile of scores, the tile's weights, and what earlier weights shrink by."""
    new_maximum = tl.maximum(maximum, tl.max(scores, 1))
    base = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
    weights = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(maximum - base)
    return new_maximum, total * shrink + tl.sum(weights, 1), weights, shrink


@triton.jit
def score_keys(
    q_low, q_high, q_sum, key_ptr, key_scale_ptr, heads, inside,
    ITEMS: tl.constexpr, PADDED: tl.constexpr, NUM_SCALES: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Products [rows, tokens] of queries with the keys at `heads` (slot * kv heads + kv head), not yet scaled."""
    keys = load_rows(key_ptr, heads * ITEMS, inside, ITEMS, PADDED)
    if NUM_SCALES == 2:
        scores = tl.dot(q_low, tl.trans((keys & 15).to(DOT)), input_precision=PRECISION)
        scores = tl.dot(q_high, tl.trans((keys >> 4).to(DOT)), scores, input_precision=PRECISION)
        key_scales = tl.load(key_scale_ptr + heads * 2, mask=inside, other=0.0).to(tl.float32)
        minima = tl.load(key_scale_ptr + heads * 2 + 1, mask=inside, other=0.0).to(tl.float32)
        scores = scores * key_scales[None, :] + q_sum[:, None] * minima[None, :]
    else:
        scores = tl.dot(q_low, tl.trans(keys.to(DOT)), input_precision=PRECISION)
        if NUM_SCALES == 1:
            key_scales = tl.load(key_scale_ptr + heads, mask=inside, other=0.0).to(tl.float32)
            scores = scores * key_scales[None, :]
    return scores


@triton.jit
def add_scaled(
    low, high, weights, shrink, values, value_scales,
    NUM_SCALES: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Integers times weights times their scales. Under float16 the largest scale is multiplied in afterwards: a weight
    times a scale that is small by itself would lose its bits below float16's range.
    """
    peak = 1.0
    if tl.float16 == DOT:
        largest = tl.max(value_scales, 0)
        peak = tl.where(largest > 0.0, largest, 1.0)
    scaled = (weights * (value_scales / peak)[None, :]).to(DOT)
    if NUM_SCALES == 2:
        low_added = tl.dot(scaled, (values & 15).to(DOT), input_precision=PRECISION)
        high_added = tl.dot(scaled, (values >> 4).to(DOT), input_precision=PRECISION)
        high = high * shrink[:, None] + high_added * peak
    else:
        low_added = tl.dot(scaled, values.to(DOT), input_precision=PRECISION)
    return low + low_added * peak, high


@triton.jit
def add_values(
    low, high, offset, weights, shrink, value_ptr, value_scale_ptr, heads, inside,
    ITEMS: tl.constexpr, PADDED: tl.constexpr, NUM_SCALES: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The running sums of weighted values after one more tile: `low` and `high` halves, `offset` of the minima."""
    values = load_rows(value_ptr, heads * ITEMS, inside, ITEMS, PADDED)
    low = low * shrink[:, None]
    if NUM_SCALES == 0:
        low = tl.dot(weights.to(DOT), values.to(DOT), low, input_precision=PRECISION)
    else:
        value_scales = tl.load(value_scale_ptr + heads * NUM_SCALES, mask=inside, other=0.0).to(tl.float32)
        if NUM_SCALES == 2:
            minima = tl.load(value_scale_ptr + heads * 2 + 1, mask=inside, other=0.0).to(tl.float32)
            offset = offset * shrink + tl.sum(weights * minima[None, :], 1)
        low, high = add_scaled(low, high, weights, shrink, values, value_scales, NUM_SCALES, DOT, PRECISION)
    return low, high, offset


@triton.jit
def attend_span(
    q_low, q_high, first_seen, last_seen, start, stop,
    table_ptr, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, kv_head, scale, softcap,
    KV_HEADS: tl.constexpr, BLOCK_SIZE: tl.constexpr, ITEMS: tl.constexpr, PADDED: tl.constexpr,
    NUM_SCALES: tl.constexpr, HAS_SOFTCAP: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Weighted values (low and high halves; high is 0 unless int4), maximum and sum of each row over start .. stop - 1.

    A row sees positions `first_seen` .. `last_seen` [ROWS]; one that sees none comes back as 0, -inf, 0.
    """
    maximum = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    low = tl.zeros([ROWS, PADDED], tl.float32)
    high = tl.zeros([ROWS, PADDED], tl.float32)
    offset = tl.zeros([ROWS], tl.float32)
    q_sum = tl.sum(q_low.to(tl.float32), 1) + tl.sum(q_high.to(tl.float32), 1)
    for tile in range(start, stop, TILE):
        positions = tile + tl.arange(0, TILE)
        inside = positions < stop
        blocks = tl.load(table_ptr + positions // BLOCK_SIZE, mask=inside, other=0).to(tl.int64)
        heads = (blocks * BLOCK_SIZE + positions % BLOCK_SIZE) * KV_HEADS + kv_head
        scores = score_keys(
            q_low, q_high, q_sum, key_ptr, key_scale_ptr, heads, inside, ITEMS, PADDED, NUM_SCALES, DOT, PRECISION
        )
        scores = bend_scores(scores, scale, softcap, HAS_SOFTCAP)
        seen = (positions[None, :] >= first_seen[:, None]) & (positions[None, :] <= last_seen[:, None])
        scores = tl.where(seen & inside[None, :], scores, -float("inf"))
        maximum, total, weights, shrink = softmax_step(maximum, total, scores)
        low, high, offset = add_values(
            low, high, offset, weights, shrink, value_ptr, value_scale_ptr, heads, inside,
            ITEMS, PADDED, NUM_SCALES, DOT, PRECISION,
        )  # fmt: skip
    return low + offset[:, None], high + offset[:, None], maximum, total


@triton.jit
def weigh_sinks(maximum, total, sinks):
    """The maximum and sum after one more score a row that has no value, and what the weighted values shrink by."""
    scores = sinks.to(tl.float32) * LOG2E
    new_maximum = tl.maximum(maximum, scores)
    shrink = tl.exp2(maximum - new_maximum)
    return total * shrink + tl.exp2(scores - new_maximum), shrink


@triton.jit
def store_output(
    out_ptr, low, high, maximum, total, sinks_ptr, token, head, is_live, stride,
    HEAD_DIM: tl.constexpr, ITEMS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write finished rows [tokens, heads, head_dim]: weighted values over the sum of weights, a sink's among them."""
    shrink = tl.full(total.shape, 1.0, tl.float32)
    if sinks_ptr is not None:
        total, shrink = weigh_sinks(maximum, total, tl.load(sinks_ptr + head, mask=is_live, other=0.0))
    factor = shrink / tl.where(total == 0.0, 1.0, total)
    rows = token.to(tl.int64) * stride + head * HEAD_DIM
    store_rows(out_ptr, rows, is_live, low * factor[:, None], ITEMS, PADDED)
    if ITEMS < HEAD_DIM:
        store_rows(out_ptr, rows + ITEMS, is_live, high * factor[:, None], ITEMS, PADDED)


@triton.jit
def store_partial(
    partial_ptr, maxima_ptr, sums_ptr, low, high, maximum, total, token, head, is_live, slot, slots,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, ITEMS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Write unfinished rows to `slot` of [tokens, heads, slots]; merge_splits finishes them."""
    rows = (token.to(tl.int64) * HEADS + head) * slots + slot
    tl.store(maxima_ptr + rows, maximum, mask=is_live)
    tl.store(sums_ptr + rows, total, mask=is_live)
    store_rows(partial_ptr, rows * HEAD_DIM, is_live, low, ITEMS, PADDED)
    if ITEMS < HEAD_DIM:
        store_rows(partial_ptr, rows * HEAD_DIM + ITEMS, is_live, high, ITEMS, PADDED)
