"""The attention backend for any CPU: gather the blocks of a sequence, then torch's fused attention.

Three choices carry its speed, all measured on SmolLM2's shape (9 query heads, 3 kv heads, head_dim 64, 30 layers):

- The query heads of one kv head are rows of one small matrix, so that keys and values are never repeated.
- Blocks are gathered into one workspace that is kept. Fresh memory for each layer costs more in page faults than the
  copy itself: 16 sequences of 1,000 tokens took 418 ms a step, with a kept workspace 213 ms.
- Decode sequences are taken in groups of similar length that fit the processor's cache: 154 ms for the same step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kvxray_kernels.backend import AttentionBackend, AttentionMetadata, CacheShape

# Keys and values of one group of decode sequences: about the second-level cache of a core.
GROUP_BYTES = 4 << 20
# A call costs as much as attending to this many more tokens: padding beyond it is dearer than a group of its own.
CALL_TOKENS = 128
# Query tokens of a prefill chunk that share one mask. Smaller tiles skip more of the future, larger ones call less.
QUERY_TILE = 128


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Consecutive sequences with one query token each, padded to the same number of blocks."""

    rows: slice  # their query tokens
    blocks: torch.Tensor  # int32 [sequences * blocks each]
    num_tokens: int  # context of the only sequence, or the padded context of each
    padding: torch.Tensor | None  # int64: gathered tokens that are nobody's; None when there are none
    bias: torch.Tensor | None  # [sequences, 1, 1, num_tokens], -inf on padding


@dataclass(frozen=True, slots=True)
class QueryTile:
    """Some query tokens of a prefill chunk and how far they see."""

    rows: slice
    visible: int  # tokens that the last of them sees
    bias: torch.Tensor  # [tokens, visible], -inf on the future


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """One sequence with several query tokens over its paged context."""

    blocks: torch.Tensor  # int32
    context_len: int
    tiles: tuple[QueryTile, ...]


@dataclass(frozen=True, slots=True)
class TorchMetadata(AttentionMetadata):
    """The step as this backend walks it."""

    decode_groups: tuple[DecodeGroup, ...]
    prefill_chunks: tuple[PrefillChunk, ...]


class TorchBackend(AttentionBackend):
    """Paged attention by gather and `scaled_dot_product_attention`."""

    def __init__(self, shape: CacheShape, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        super().__init__(shape, dtype, device)
        self._gathered_keys = torch.empty((0, *shape.as_tuple()[2:]), dtype=dtype, device=self.device)
        self._gathered_values = torch.empty_like(self._gathered_keys)

    def build_metadata(
        self, query_lens: Sequence[int], context_lens: Sequence[int], block_tables: Sequence[Sequence[int]]
    ) -> TorchMetadata:
        base = super().build_metadata(query_lens, context_lens, block_tables)
        num_decodes = next((i for i, n in enumerate(query_lens) if n > 1), len(query_lens))
        groups = [self._decode_group(base, first, last) for first, last in self._group_bounds(base, num_decodes)]
        chunks = [self._prefill_chunk(base, i) for i in range(num_decodes, len(query_lens))]
        metadata = TorchMetadata(
            base.query_lens, base.context_lens, base.query_starts, base.block_tables, tuple(groups), tuple(chunks)
        )
        self._reserve_workspace(metadata)
        return metadata

    def write_kv(self, layer: int, k: torch.Tensor, v: torch.Tensor, slot_mapping: torch.Tensor) -> None:
        if int(slot_mapping.min()) < 0:
            kept = (slot_mapping >= 0).nonzero().squeeze(1)
            k, v, slot_mapping = k[kept], v[kept], slot_mapping[kept]
        row = (-1, self.shape.num_kv_heads, self.shape.head_dim)
        self.key_cache[layer].view(row).index_copy_(0, slot_mapping, k)
        self.value_cache[layer].view(row).index_copy_(0, slot_mapping, v)

    def attend(self, layer: int, q: torch.Tensor, metadata: AttentionMetadata) -> torch.Tensor:
        assert isinstance(metadata, TorchMetadata), "metadata must come from this backend's build_metadata"
        out = torch.empty_like(q)
        for group in metadata.decode_groups:
            out[group.rows] = self._decode(layer, q[group.rows], group)
        for chunk in metadata.prefill_chunks:
            self._prefill(layer, q, chunk, out)
        return out

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        if not pairs:
            return
        source, destination = torch.tensor(pairs, dtype=torch.int64, device=self.device).unbind(1)
        self.key_cache[:, destination] = self.key_cache[:, source]
        self.value_cache[:, destination] = self.value_cache[:, source]

    # -- once a step

    def _group_bounds(self, metadata: AttentionMetadata, num_decodes: int) -> Iterator[tuple[int, int]]:
        """Cut the decode sequences, in their order, into groups worth padding to their longest."""
        bytes_per_token = 2 * self.shape.num_kv_heads * self.shape.head_dim * self.dtype.itemsize
        lens = metadata.context_lens
        first = 0
        for i in range(1, num_decodes):
            shortest, longest = min(lens[first : i + 1]), max(lens[first : i + 1])
            too_wide = longest - shortest > CALL_TOKENS
            # Two at least: torch's attention has one sequence and kv head for each thread to take.
            too_large = i - first >= 2 and (i - first + 1) * longest * bytes_per_token > GROUP_BYTES
            if too_wide or too_large:
                yield first, i
                first = i
        if num_decodes:
            yield first, num_decodes

    def _decode_group(self, metadata: AttentionMetadata, first: int, last: int) -> DecodeGroup:
        lens = metadata.context_lens[first:last]
        width = self.num_blocks_for(max(lens))
        blocks = metadata.block_tables[first:last, :width].reshape(-1)
        rows = slice(first, last)  # one query token each, and decodes come first
        if last - first == 1:
            return DecodeGroup(rows, blocks, lens[0], None, None)
        num_tokens = width * self.shape.block_size
        beyond = torch.arange(num_tokens, device=self.device) >= torch.tensor(lens, device=self.device)[:, None]
        bias = torch.zeros(beyond.shape, dtype=self.dtype, device=self.device).masked_fill_(beyond, -torch.inf)
        padding = beyond.view(-1).nonzero().squeeze(1)
        return DecodeGroup(rows, blocks, num_tokens, padding, bias[:, None, None, :])

    def _prefill_chunk(self, metadata: AttentionMetadata, i: int) -> PrefillChunk:
        context_len, query_len = metadata.context_lens[i], metadata.query_lens[i]
        tiles = []
        for offset in range(0, query_len, QUERY_TILE):
            tokens = min(QUERY_TILE, query_len - offset)
            visible = context_len - query_len + offset + tokens
            future = torch.full((tokens, visible), -torch.inf, dtype=self.dtype, device=self.device)
            start = metadata.query_starts[i] + offset
            tiles.append(QueryTile(slice(start, start + tokens), visible, future.triu_(visible - tokens + 1)))
        blocks = metadata.block_tables[i, : self.num_blocks_for(context_len)]
        return PrefillChunk(blocks, context_len, tuple(tiles))

    def _reserve_workspace(self, metadata: TorchMetadata) -> None:
        gathers = [group.blocks for group in metadata.decode_groups] + [c.blocks for c in metadata.prefill_chunks]
        needed = max((blocks.numel() for blocks in gathers), default=0)
        if needed > self._gathered_keys.shape[0]:
            # A context grows block by block: a half more than needed now saves a new workspace every few steps.
            size = (needed + needed // 2, *self.shape.as_tuple()[2:])
            with torch.inference_mode(False):  # the workspace outlives the caller's mode
                self._gathered_keys = torch.empty(size, dtype=self.dtype, device=self.device)
                self._gathered_values = torch.empty_like(self._gathered_keys)

    # -- in every layer

    def _gather(self, layer: int, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these blocks, each [tokens, num_kv_heads, head_dim], valid until the next gather."""
        row = (-1, self.shape.num_kv_heads, self.shape.head_dim)
        keys = self._gathered_keys[: blocks.numel()]
        values = self._gathered_values[: blocks.numel()]
        torch.index_select(self.key_cache[layer], 0, blocks, out=keys)
        torch.index_select(self.value_cache[layer], 0, blocks, out=values)
        return keys.view(row), values.view(row)

    def _decode(self, layer: int, q: torch.Tensor, group: DecodeGroup) -> torch.Tensor:
        keys, values = self._gather(layer, group.blocks)
        if group.padding is not None:
            # The bias alone would not do: a NaN in memory that is nobody's survives any weight, also 0.
            keys.index_fill_(0, group.padding, 0.0)
            values.index_fill_(0, group.padding, 0.0)
        sequences, num_heads, head_dim = q.shape
        num_kv_heads = self.shape.num_kv_heads
        by_sequence = (sequences, -1, num_kv_heads, head_dim)
        out = F.scaled_dot_product_attention(
            q.reshape(sequences, num_kv_heads, num_heads // num_kv_heads, head_dim),
            keys.view(by_sequence)[:, : group.num_tokens].transpose(1, 2),
            values.view(by_sequence)[:, : group.num_tokens].transpose(1, 2),
            attn_mask=group.bias,
        )
        return out.reshape(sequences, num_heads, head_dim)

    def _prefill(self, layer: int, q: torch.Tensor, chunk: PrefillChunk, out: torch.Tensor) -> None:
        keys, values = self._gather(layer, chunk.blocks)
        for tile in chunk.tiles:
            attended = F.scaled_dot_product_attention(
                q[tile.rows].transpose(0, 1)[None],
                keys[: tile.visible].transpose(0, 1)[None],
                values[: tile.visible].transpose(0, 1)[None],
                attn_mask=tile.bias,
                enable_gqa=q.shape[1] != self.shape.num_kv_heads,
            )
            out[tile.rows] = attended[0].transpose(0, 1)
