"""The attention backend for any CPU: gather the blocks of a sequence, then torch's fused attention; what sequences
share is gathered and attended over once for all of them (cascade, arXiv 2501.01005).

Four choices carry its speed, all measured on SmolLM2's shape (9 query heads, 3 kv heads, head_dim 64, 30 layers):

- The query heads of one kv head are rows of one small matrix, so that keys and values are never repeated.
- Blocks are gathered into one workspace that is kept. Fresh memory for each layer costs more in page faults than the
  copy itself: 16 sequences of 1,000 tokens took 418 ms a step, with a kept workspace 213 ms. Blocks that lie side by
  side are not copied at all.
- Decode sequences are taken in groups of similar length that fit the processor's cache: 154 ms for the same step.
- A shared prefix becomes one product of many rows: 20 sequences that share 2,048 tokens took 531 ms, then 156 ms.
  What such sequences read stays gathered from step to step, as far as `MAX_KEPT_BYTES` go, and a long prefix is packed
  for oneDNN's product (`packed_prefixes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from kvxray_kernels.attention_variant import PLAIN, AttentionVariant
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata, CacheShape
from kvxray_kernels.cache_format import CacheFormat
from kvxray_kernels.kept_blocks import MAX_KEPT_BYTES, KeptBlocks
from kvxray_kernels.packed_prefixes import PackedPrefixes
from kvxray_kernels.quantisation import BlockReader, movable, quantise
from kvxray_kernels.torch_cascade import cascade, decode, prefill
from kvxray_kernels.torch_steps import Blocks, StepBuilder, TorchMetadata

# Rows of keys or of values, with the cache and the scales that are theirs.
CachePart = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


class TorchBackend(AttentionBackend):
    """Paged attention by gather and `scaled_dot_product_attention`."""

    def __init__(
        self,
        shape: CacheShape,
        cache_format: CacheFormat,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        cascade: bool = True,
    ) -> None:
        """`cascade`: attend over what sequences share once. Without it every sequence reads all of its own context."""
        super().__init__(shape, cache_format, dtype, device)
        self.cascade = cascade
        bytes_per_token = 2 * shape.num_kv_heads * shape.head_dim * self.dtype.itemsize
        # What a quantised cache saves would be lost by copies of it that are not.
        kept_bytes = 0 if cache_format.is_quantised else MAX_KEPT_BYTES
        max_kept = kept_bytes // (bytes_per_token * shape.block_size * shape.num_layers)
        self._steps = StepBuilder(shape.block_size, bytes_per_token, max_kept, self.dtype, self.device)
        self._kept = KeptBlocks(shape.num_layers, max_kept, self._block_shape, self.dtype, self.device)
        bytes_per_block = bytes_per_token * shape.block_size * shape.num_layers
        can_pack = self.device.type == "cpu" and self.dtype == torch.float32 and not cache_format.is_quantised
        self._packed = PackedPrefixes(shape.num_layers, shape.block_size, bytes_per_block, possible=can_pack)
        self._reader = BlockReader(shape, cache_format, self.device) if cache_format.is_quantised else None
        self._gathered_keys = torch.empty((0, *self._block_shape), dtype=self.dtype, device=self.device)
        self._gathered_values = torch.empty_like(self._gathered_keys)

    def build_metadata(
        self, query_lens: Sequence[int], context_lens: Sequence[int], block_tables: Sequence[Sequence[int]]
    ) -> TorchMetadata:
        base = super().build_metadata(query_lens, context_lens, block_tables)
        metadata = self._steps.build(base, block_tables, self.cascade)
        self._reserve_workspace(metadata.most_blocks)
        if not metadata.kept:
            self._kept.release()
        self._packed.begin_step()
        return metadata

    def write_kv(self, layer: int, k: torch.Tensor, v: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        slots = slot_mapping.tolist()
        if slots and min(slots) < 0:
            written = (slot_mapping >= 0).nonzero().squeeze(1)
            k, v, slot_mapping = k[written], v[written], slot_mapping[written]
        self._wrote(layer, slots)
        for rows, cache, scales in self._keys_and_values(k, v):
            items, row_scales = quantise(rows, self.cache_format)
            movable(cache[layer]).flatten(0, 1).index_copy_(0, slot_mapping, movable(items))
            if scales is not None and row_scales is not None:
                scales[layer].flatten(0, 1).index_copy_(0, slot_mapping, row_scales)

    def attend(
        self, layer: int, q: torch.Tensor, metadata: AttentionMetadata, variant: AttentionVariant = PLAIN
    ) -> torch.Tensor:
        assert isinstance(metadata, TorchMetadata), "metadata must come from this backend's build_metadata"
        # Copies hide what lies behind a context, and nothing of what lies before a window.
        use_kept = bool(metadata.kept) and variant.sliding_window is None
        if use_kept:
            self._kept.bring_up_to_date(layer, metadata.kept, self.key_cache[layer], self.value_cache[layer])
        read = partial(self._read, layer, use_kept)
        out = torch.empty_like(q)
        prefixes = self._packed.of(layer, self.shape.num_kv_heads)
        for shared in metadata.shared_groups:
            out[shared.rows] = cascade(q[shared.rows], shared, read, variant, prefixes)
        for group in metadata.decode_groups:
            out[group.rows] = decode(q[group.rows], group, read, variant)
        for chunk in metadata.prefill_chunks:
            context = read(chunk.blocks, None)
            for tile in chunk.tiles:
                out[tile.rows] = prefill(q[tile.rows], tile, context, variant)
        return out

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        source_of = {destination: source for source, destination in pairs}  # where two write one block, the last counts
        if not source_of:
            return
        sources, destinations = torch.tensor([(s, d) for d, s in source_of.items()], device=self.device).unbind(1)
        for kept in (self.key_cache, self.value_cache, self.key_scales, self.value_scales):
            if kept is not None:
                movable(kept)[:, destinations] = movable(kept)[:, sources]
        size = self.shape.block_size
        for layer in range(self.shape.num_layers):
            for block in source_of:
                self._wrote(layer, range(block * size, (block + 1) * size))

    def _wrote(self, layer: int, slots: Sequence[int]) -> None:
        """What was copied or packed of these is out of date."""
        self._kept.wrote(layer, slots)
        self._packed.wrote(layer, slots)

    def _keys_and_values(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[CachePart, CachePart]:
        """These keys with the cache and the scales of keys, and the same of values."""
        return (keys, self.key_cache, self.key_scales), (values, self.value_cache, self.value_scales)

    @property
    def _block_shape(self) -> tuple[int, int, int]:
        """Of one block in the workspace."""
        return (self.shape.block_size, self.shape.num_kv_heads, self.shape.head_dim)

    def _reserve_workspace(self, needed: int) -> None:
        """Room for so many gathered blocks."""
        if needed > self._gathered_keys.shape[0]:
            # A context grows block by block: a half more than needed now saves a new workspace every few steps.
            size = (needed + needed // 2, *self._block_shape)
            with torch.inference_mode(False):  # the workspace outlives the caller's mode
                self._gathered_keys = torch.empty(size, dtype=self.dtype, device=self.device)
                self._gathered_values = torch.empty_like(self._gathered_keys)

    # -- in every layer

    def _gather(self, layer: int, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these blocks, each [tokens, num_kv_heads, head_dim], valid until the next gather."""
        row = (-1, self.shape.num_kv_heads, self.shape.head_dim)
        keys = self._gathered_keys[: blocks.numel()]
        values = self._gathered_values[: blocks.numel()]
        for gathered, cache, scales in self._keys_and_values(keys, values):
            if self._reader is None:
                torch.index_select(cache[layer], 0, blocks, out=gathered)
            else:
                self._reader.gather(cache[layer], None if scales is None else scales[layer], blocks, gathered)
        return keys.view(row), values.view(row)

    def _read(
        self, layer: int, use_kept: bool, blocks: Blocks, unseen: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, each [num_kv_heads, tokens, head_dim], with zeros in place of the `unseen` tokens; valid
        until the next read, and not to be written to.
        """
        if use_kept and blocks.kept_at is not None:
            return self._kept.read(layer, blocks.kept_at, blocks.ids.numel())
        if unseen is None and blocks.first is not None and not self.cache_format.is_quantised:
            row = (-1, self.shape.num_kv_heads, self.shape.head_dim)
            beside = slice(blocks.first, blocks.first + blocks.ids.numel())
            keys, values = self.key_cache[layer, beside].view(row), self.value_cache[layer, beside].view(row)
            return keys.transpose(0, 1), values.transpose(0, 1)
        keys, values = self._gather(layer, blocks.ids)
        if unseen is not None:
            keys.index_fill_(0, unseen, 0.0)
            values.index_fill_(0, unseen, 0.0)
        return keys.transpose(0, 1), values.transpose(0, 1)
