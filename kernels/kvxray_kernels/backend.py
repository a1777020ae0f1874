"""The line between a model and the paged KV cache: who keeps keys and values, and who attends over them.

A backend owns the two cache tensors and knows blocks, slots and heads. It does not know requests, tokens, sampling or
who shares a block: whatever the block tables say is what it reads. Every backend has the same layout and the same
words, so that one can replace another under a running design:

    key_cache, value_cache     [num_layers, num_blocks, block_size, num_kv_heads, items], in the format's storage dtype;
                               items = head_dim / values per item
    key_scales, value_scales   float16 [num_layers, num_blocks, block_size, num_kv_heads, scales]; None without scales
    slot_mapping               int64 [tokens]: block_id * block_size + offset, -1 = write nothing
    block_tables               int32 [sequences, max_blocks], padded with the null block 0

Memory that nothing was written to may hold anything, NaN included: a backend never lets it reach a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.cache_format import SCALE_DTYPE, CacheFormat

NULL_BLOCK = 0


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The size of a paged KV cache, the null block included."""

    num_layers: int
    num_blocks: int
    block_size: int  # tokens
    num_kv_heads: int
    head_dim: int

    def of_cache(self, cache_format: CacheFormat) -> tuple[int, int, int, int, int]:
        """The shape of the key cache, and of the value cache."""
        return (*self._heads, self.head_dim // cache_format.values_per_item)

    def of_scales(self, cache_format: CacheFormat) -> tuple[int, int, int, int, int]:
        """The shape of the key scales, and of the value scales."""
        return (*self._heads, cache_format.num_scales)

    def bytes_per_block(self, cache_format: CacheFormat) -> int:
        """Bytes of one block: keys and values of every layer, with their scales."""
        return 2 * self.num_layers * self.block_size * self.num_kv_heads * cache_format.bytes_per_head(self.head_dim)

    @property
    def _heads(self) -> tuple[int, int, int, int]:
        return (self.num_layers, self.num_blocks, self.block_size, self.num_kv_heads)


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """Where the queries of one step are and what they see, built once a step and used by every layer.

    Sequence i owns `query_lens[i]` consecutive query tokens, the last of its `context_lens[i]` tokens; all of them are
    in the cache by the time of `attend`. Query token j of the sequence sees positions 0 .. context_len - query_len + j.
    """

    query_lens: tuple[int, ...]
    context_lens: tuple[int, ...]
    query_starts: tuple[int, ...]  # one more than sequences; the last is the number of query tokens
    block_tables: torch.Tensor  # int32 [sequences, max_blocks]

    @property
    def num_tokens(self) -> int:
        return self.query_starts[-1]


class AttentionBackend(ABC):
    """A paged KV cache and the attention over it. See the module for the layout."""

    def __init__(
        self,
        shape: CacheShape,
        cache_format: CacheFormat,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`dtype`: of queries, keys, values and results. A cache that is not quantised has its own, and no other."""
        assert shape.head_dim % cache_format.values_per_item == 0, "a head must fill its last item"
        assert cache_format.is_quantised or dtype in (None, cache_format.storage_dtype), "nobody would convert"
        assert not cache_format.is_quantised or dtype is not None, "a quantised cache says what it is read as"
        self.shape = shape
        self.cache_format = cache_format
        self.dtype = dtype or cache_format.storage_dtype
        self.device = torch.device(device)
        # Not zeroed: memory then costs nothing until it is used, and what nobody wrote is never read anyway.
        self.key_cache = torch.empty(shape.of_cache(cache_format), dtype=cache_format.storage_dtype, device=self.device)
        self.value_cache = torch.empty_like(self.key_cache)
        self.key_scales: torch.Tensor | None = None
        self.value_scales: torch.Tensor | None = None
        if cache_format.num_scales:
            self.key_scales = torch.empty(shape.of_scales(cache_format), dtype=SCALE_DTYPE, device=self.device)
            self.value_scales = torch.empty_like(self.key_scales)

    def build_metadata(
        self, query_lens: Sequence[int], context_lens: Sequence[int], block_tables: Sequence[Sequence[int]]
    ) -> AttentionMetadata:
        """Describe one step to every layer.

        Sequences with a single query token (decode) come first, and are served best in order of their context length.
        A block table may be longer than its context needs.
        """
        starts = [0]
        for query_len, context_len, table in zip(query_lens, context_lens, block_tables, strict=True):
            assert 0 < query_len <= context_len, "a sequence has a query token, and sees at least its own queries"
            assert len(table) >= self.num_blocks_for(context_len), "a block table must cover the context"
            starts.append(starts[-1] + query_len)
        return AttentionMetadata(
            tuple(query_lens), tuple(context_lens), tuple(starts), self._table_tensor(context_lens, block_tables)
        )

    @abstractmethod
    def write_kv(self, layer: int, k: torch.Tensor, v: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        """Write keys and values [tokens, num_kv_heads, head_dim] to their slots; slot -1 is skipped."""

    @abstractmethod
    def attend(
        self, layer: int, q: torch.Tensor, metadata: AttentionMetadata, variant: AttentionVariant = PLAIN
    ) -> torch.Tensor:
        """Causal attention of q [tokens, num_heads, head_dim] over the cached context; same shape out.

        Query heads h * group .. (h + 1) * group - 1 read kv head h.
        """

    @abstractmethod
    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks (source, destination), scales too, in every layer.

        All sources are read before anything is written.
        """

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-num_tokens // self.shape.block_size)

    def check_integrity(self) -> None:
        """Assert that the cache is still the one that was made."""
        for cache in (self.key_cache, self.value_cache):
            assert tuple(cache.shape) == self.shape.of_cache(self.cache_format), "a cache tensor has changed its shape"
            assert cache.dtype == self.cache_format.storage_dtype, "a cache tensor has changed its dtype"
            assert cache.is_contiguous(), "kernels address the cache by its layout: it must stay contiguous"
        for scales in (self.key_scales, self.value_scales):
            assert (scales is not None) == (self.cache_format.num_scales > 0), "scales belong to formats that have them"
            assert scales is None or tuple(scales.shape) == self.shape.of_scales(self.cache_format), "scales changed"
        assert self.key_cache.data_ptr() != self.value_cache.data_ptr(), "keys and values share memory"

    def _table_tensor(self, context_lens: Sequence[int], block_tables: Sequence[Sequence[int]]) -> torch.Tensor:
        width = max((self.num_blocks_for(context_len) for context_len in context_lens), default=0)
        rows = [list(table[:width]) + [NULL_BLOCK] * (width - len(table)) for table in block_tables]
        return torch.tensor(rows, dtype=torch.int32, device=self.device)
