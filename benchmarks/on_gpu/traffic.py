"""How many bytes attention must move and how many operations it must do, at the least: what times are divided into."""

from __future__ import annotations

from collections.abc import Sequence

from kvxray_kernels.backend import CacheShape
from kvxray_kernels.cache_format import CacheFormat

BLOCK_ID_BYTES = 4


def decode_bytes(
    shape: CacheShape, cache_format: CacheFormat, num_heads: int, context_lens: Sequence[int], query_itemsize: int
) -> int:
    """Bytes of one layer of one decode step.

    Every sequence's keys, values, scales and block ids are read once; a query is read and a result written for each.
    """
    of_token = 2 * shape.num_kv_heads * cache_format.bytes_per_head(shape.head_dim)
    block_ids = sum(-(-length // shape.block_size) for length in context_lens)
    of_queries = 2 * len(context_lens) * num_heads * shape.head_dim * query_itemsize
    return sum(context_lens) * of_token + block_ids * BLOCK_ID_BYTES + of_queries


def attention_flops(num_heads: int, head_dim: int, query_lens: Sequence[int], context_lens: Sequence[int]) -> int:
    """Operations of causal attention: two products over what each query sees, a multiplication and an addition each."""
    seen = 0
    for query_len, context_len in zip(query_lens, context_lens, strict=True):
        first = context_len - query_len + 1  # what the first query sees; each next one sees one more
        seen += query_len * (first + context_len) // 2
    return 4 * seen * num_heads * head_dim


def layers_beyond_cache(bytes_per_layer: int, l2_bytes: int, most: int) -> int:
    """How many layers to go through in turn, so that none is still in the second-level cache when it is next read."""
    return max(1, min(most, -(-4 * l2_bytes // max(bytes_per_layer, 1))))
