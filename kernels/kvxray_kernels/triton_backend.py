"""The attention backend for GPUs: Triton kernels over the paged cache, and the interpreter where there is no GPU.

A step is decode sequences first, each cut into splits, with what groups of them share attended once; then query tiles
of prefill chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata, CacheShape
from kvxray_kernels.cache_format import FP8_E4M3, CacheFormat
from kvxray_kernels.shared_prefix import shared_prefixes
from kvxray_kernels.triton_kernels.cascade import cascade
from kvxray_kernels.triton_kernels.copy_blocks import copy_blocks
from kvxray_kernels.triton_kernels.merge_splits import merge_splits
from kvxray_kernels.triton_kernels.operands import LayerCache, Partials, Scores
from kvxray_kernels.triton_kernels.paged_decode import paged_decode
from kvxray_kernels.triton_kernels.paged_prefill import paged_prefill
from kvxray_kernels.triton_kernels.store_kv import store_kv
from kvxray_kernels.triton_kernels.tiles import Kind, num_splits, tiles_for
from kvxray_kernels.triton_step import DeviceStep, TritonMetadata, make_device_step

INTERPRETED_PROCESSORS: Final = 8
"""Stands for a GPU's multiprocessors in the interpreter, so that small batches are split there too."""


class TritonBackend(AttentionBackend):
    """Paged attention by Triton kernels."""

    def __init__(
        self,
        shape: CacheShape,
        cache_format: CacheFormat,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(shape, cache_format, dtype, device)
        self._processors = INTERPRETED_PROCESSORS
        if self.device.type == "cuda":
            of_device = torch.cuda.get_device_properties(self.device)
            knows_fp8 = (of_device.major, of_device.minor) >= (8, 9)
            assert knows_fp8 or cache_format is not FP8_E4M3, "this GPU has no fp8: int8 takes the same memory"
            self._processors = of_device.multi_processor_count

    def build_metadata(
        self, query_lens: Sequence[int], context_lens: Sequence[int], block_tables: Sequence[Sequence[int]]
    ) -> TritonMetadata:
        base = super().build_metadata(query_lens, context_lens, block_tables)
        num_decodes = next((i for i, n in enumerate(query_lens) if n > 1), len(query_lens))
        # Prefill chunks are left out: a chunk reads its context once for all of its query tokens as it is.
        whole = [list(block_tables[i][: context_lens[i] // self.shape.block_size]) for i in range(num_decodes)]
        return TritonMetadata(
            base.query_lens,
            base.context_lens,
            base.query_starts,
            base.block_tables,
            num_decodes,
            shared_prefixes(whole),
        )

    def write_kv(self, layer: int, k: torch.Tensor, v: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        to = self._layer(layer)
        store_kv(k, v, to.keys, to.values, to.key_scales, to.value_scales, slot_mapping, self.cache_format)

    def attend(
        self, layer: int, q: torch.Tensor, metadata: AttentionMetadata, variant: AttentionVariant = PLAIN
    ) -> torch.Tensor:
        assert isinstance(metadata, TritonMetadata), "metadata must come from this backend's build_metadata"
        if not (q.stride(2) == 1 and q.stride(1) == q.shape[2]):
            q = q.contiguous()
        step = self._device_step(metadata, q.shape[1])
        scores = Scores.of(variant, self.shape.head_dim)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        if metadata.num_decodes:
            self._decode(self._layer(layer), q, out, scores, metadata.block_tables, step)
        if len(step.query_tiles):
            paged_prefill(q, out, self._layer(layer), scores, metadata.block_tables, step.query_tiles)
        return out

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        copy_blocks(self.key_cache, self.value_cache, self.key_scales, self.value_scales, pairs)

    def _layer(self, layer: int) -> LayerCache:
        key_scales = None if self.key_scales is None else self.key_scales[layer]
        value_scales = None if self.value_scales is None else self.value_scales[layer]
        return LayerCache(self.key_cache[layer], self.value_cache[layer], key_scales, value_scales)

    def _device_step(self, metadata: TritonMetadata, num_heads: int) -> DeviceStep:
        if num_heads not in metadata.by_heads:
            group = num_heads // self.shape.num_kv_heads
            metadata.by_heads[num_heads] = make_device_step(
                metadata, self.shape.block_size, self.dtype, self.shape.head_dim, group
            )
        return metadata.by_heads[num_heads]

    def _decode(
        self,
        cache: LayerCache,
        q: torch.Tensor,
        out: torch.Tensor,
        scores: Scores,
        tables: torch.Tensor,
        step: DeviceStep,
    ) -> None:
        lens, is_shared = step.context_lens, len(step.row_tiles) > 0
        splits = self._splits("decode", q, len(lens), step.longest_suffix, scores)
        if splits == 1 and not is_shared:
            paged_decode(q, out, cache, scores, tables, lens)
            return
        prefix_splits = self._splits("cascade", q, len(step.row_tiles), step.longest_prefix, scores) if is_shared else 0
        starts = step.suffix_starts if is_shared else None
        partials = Partials.empty(len(lens), q.shape[1], splits + prefix_splits, q.shape[2], q.device)
        paged_decode(q, out, cache, scores, tables, lens, splits=splits, partials=partials, suffix_starts=starts)
        if is_shared:
            cascade(q, partials, cache, scores, tables, lens, step.members, step.row_tiles, first_slot=splits)
        merge_splits(partials, out, scores.sinks, splits, starts)

    def _splits(self, kind: Kind, q: torch.Tensor, programs: int, longest: int, scores: Scores) -> int:
        kv_heads = self.shape.num_kv_heads
        tiles = tiles_for(kind, q.dtype, q.shape[2], q.shape[1] // kv_heads)
        seen = min(longest, scores.window or longest)
        return num_splits(programs * kv_heads, seen, tiles.tokens, self._processors)
