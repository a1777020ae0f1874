"""What every backend must agree with: paged attention in float64, one query token and one head at a time.

Slow and obvious on purpose. It shares nothing with the backends but the layout of `kvxray_kernels.backend`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvxray_kernels.attention_variant import PLAIN, AttentionVariant


def reference_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    query_lens: Sequence[int],
    context_lens: Sequence[int],
    block_tables: Sequence[Sequence[int]],
    variant: AttentionVariant = PLAIN,
) -> torch.Tensor:
    """Causal attention of q [tokens, num_heads, head_dim] over one layer of the cache; float64, same shape.

    The caches are one layer of numbers, dequantised: [num_blocks, block_size, num_kv_heads, head_dim].
    """
    out = torch.empty(q.shape, dtype=torch.float64)
    group = q.shape[1] // key_cache.shape[2]
    row = 0
    for query_len, context_len, table in zip(query_lens, context_lens, block_tables, strict=True):
        keys = _tokens_of(key_cache, table, context_len)
        values = _tokens_of(value_cache, table, context_len)
        for j in range(query_len):
            last = context_len - query_len + j
            first = 0 if variant.sliding_window is None else max(0, last - variant.sliding_window + 1)
            for head in range(q.shape[1]):
                k = keys[first : last + 1, head // group]
                v = values[first : last + 1, head // group]
                sink = None if variant.sinks is None else variant.sinks[head].double()
                out[row, head] = _attend(q[row, head].double(), k, v, variant, sink)
            row += 1
    return out


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, variant: AttentionVariant, sink: torch.Tensor | None
) -> torch.Tensor:
    """One query of one head over the keys and values that it sees."""
    scores = (k @ q) * variant.scale_for(len(q))
    if variant.softcap is not None:
        scores = variant.softcap * torch.tanh(scores / variant.softcap)
    if sink is not None:
        scores = torch.cat([scores, sink[None]])
    return torch.softmax(scores, dim=0)[: len(v)] @ v


def reference_write(cache: torch.Tensor, rows: torch.Tensor, slot_mapping: Sequence[int]) -> torch.Tensor:
    """A copy of one layer's cache with `rows` [tokens, num_kv_heads, head_dim] written to their slots."""
    written = cache.clone()
    block_size = cache.shape[1]
    for token, slot in enumerate(slot_mapping):
        if slot >= 0:
            written[slot // block_size, slot % block_size] = rows[token]
    return written


def reference_copy(cache: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """A copy of the whole cache after copying blocks (source, destination), all read before any is written."""
    copied = cache.clone()
    for source, destination in pairs:
        copied[:, destination] = cache[:, source]
    return copied


def _tokens_of(cache: torch.Tensor, table: Sequence[int], num_tokens: int) -> torch.Tensor:
    """The first tokens of a sequence, float64 [num_tokens, num_kv_heads, head_dim]."""
    block_size = cache.shape[1]
    return torch.stack([cache[table[p // block_size], p % block_size].double() for p in range(num_tokens)])
