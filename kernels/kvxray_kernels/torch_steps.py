"""One step as the torch backend walks it: what is gathered together, who sees what of it. Built once a step from the
lengths and the block tables, and used by every layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kvxray_kernels.backend import AttentionMetadata
from kvxray_kernels.kept_blocks import KeptRegion
from kvxray_kernels.shared_prefix import shared_prefixes

# Keys and values of one group of decode sequences: about the second-level cache of a core.
GROUP_BYTES = 4 << 20
# A call costs as much as attending to this many more tokens: padding beyond it is dearer than a group of its own.
CALL_TOKENS = 128
# Query tokens of a prefill chunk that share one mask. Smaller tiles skip more of the future, larger ones call less.
QUERY_TILE = 128

Rows = slice | torch.Tensor  # of the step's query tokens: a tensor is int64


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks that are read together, in order."""

    ids: torch.Tensor  # int32
    first: int | None  # the first of them where they lie side by side in the cache: such can be read where they are
    kept_at: int | None = None  # the place of the first among the kept blocks, if they are kept

    @classmethod
    def of(cls, ids: Sequence[int], device: torch.device) -> Blocks:
        beside = all(block == ids[0] + i for i, block in enumerate(ids))
        return cls(torch.tensor(ids, dtype=torch.int32, device=device), ids[0] if beside else None)

    def kept(self, kept: list[KeptRegion], seen: Sequence[int], most: int) -> Blocks:
        """Added to the end of what is kept, with how much of each is seen, unless that would be too much."""
        kept_at = sum(map(len, kept))
        if self.first is not None or kept_at + len(seen) > most:
            return self
        kept.append(tuple(zip(self.ids.tolist(), seen, strict=True)))
        return replace(self, kept_at=kept_at)


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences with one query token each, padded to the same number of blocks.

    They see their tokens from `start` on: what lies before belongs to a `SharedGroup`.
    """

    rows: Rows  # their query tokens
    blocks: Blocks  # of one sequence after the other
    start: int
    context_lens: torch.Tensor  # int64 [sequences], the tokens before `start` counted
    num_tokens: int  # tokens from `start` on of the only sequence, or the padded number of each
    padding: torch.Tensor | None  # int64: gathered tokens that are nobody's; None when there are none
    bias: torch.Tensor | None  # [sequences, 1, 1, num_tokens], -inf on padding

    def within(self, window: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Bias and padding where queries see no more than their window: what lies before it may be nobody's too."""
        before = _before_window(self.context_lens - 1, self.start, self.num_tokens, window)
        beyond = (
            torch.arange(self.start, self.start + self.num_tokens, device=before.device) >= self.context_lens[:, None]
        )
        hidden = before | beyond
        return _bias(hidden, dtype)[:, None, None, :], _numbers(hidden)


@dataclass(frozen=True, slots=True)
class SharedGroup:
    """Decode sequences that begin with the same blocks: those are attended over once for all of them."""

    rows: Rows
    ids: tuple[int, ...]  # of its blocks
    blocks: Blocks  # whole ones, which all of the sequences see
    context_lens: torch.Tensor  # int64 [sequences]
    num_tokens: int  # in the blocks
    suffixes: tuple[DecodeGroup, ...]  # what comes after; their rows count within this group

    def within(self, window: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Bias [sequences, num_tokens] and the tokens that none of them sees, where queries see only their window."""
        hidden = _before_window(self.context_lens - 1, 0, self.num_tokens, window)
        return _bias(hidden, dtype), _numbers(hidden.all(dim=0))


@dataclass(frozen=True, slots=True)
class QueryTile:
    """Some query tokens of a prefill chunk and how far they see."""

    rows: slice
    visible: int  # tokens that the last of them sees
    bias: torch.Tensor  # [tokens, visible], -inf on the future

    def within(self, window: int) -> torch.Tensor:
        """The bias where queries see no more than their window."""
        tokens = self.bias.shape[0]
        positions = torch.arange(self.visible - tokens, self.visible, device=self.bias.device)
        return self.bias.masked_fill(_before_window(positions, 0, self.visible, window), -torch.inf)


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """One sequence with several query tokens over its paged context."""

    blocks: Blocks
    tiles: tuple[QueryTile, ...]


@dataclass(frozen=True, slots=True)
class TorchMetadata(AttentionMetadata):
    """The step as this backend walks it."""

    shared_groups: tuple[SharedGroup, ...]
    decode_groups: tuple[DecodeGroup, ...]
    prefill_chunks: tuple[PrefillChunk, ...]
    kept: tuple[KeptRegion, ...]  # of the shared groups, in the order of their places

    @property
    def most_blocks(self) -> int:
        """Of what is gathered at once."""
        blocks = [group.blocks for group in self.decode_groups] + [chunk.blocks for chunk in self.prefill_chunks]
        for shared in self.shared_groups:
            blocks += [shared.blocks, *(suffix.blocks for suffix in shared.suffixes)]
        return max((together.ids.numel() for together in blocks), default=0)


class StepBuilder:
    """Cuts steps into groups for one cache. It keeps nothing between steps."""

    def __init__(
        self, block_size: int, bytes_per_token: int, max_kept: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """`bytes_per_token`: of its keys and values in one layer, as they are attended over. `max_kept`: blocks."""
        self._block_size = block_size
        self._bytes_per_token = bytes_per_token
        self._max_kept = max_kept
        self._dtype = dtype
        self._device = device

    def build(self, base: AttentionMetadata, tables: Sequence[Sequence[int]], cascade: bool) -> TorchMetadata:
        num_decodes = next((i for i, n in enumerate(base.query_lens) if n > 1), len(base.query_lens))
        lens = base.context_lens
        kept: list[KeptRegion] = []
        shared = self._shared_groups(lens[:num_decodes], tables, kept) if cascade and num_decodes > 1 else []
        sharing = {i for members, _ in shared for i in members}
        alone = [i for i in range(num_decodes) if i not in sharing]
        return TorchMetadata(
            base.query_lens,
            base.context_lens,
            base.query_starts,
            base.block_tables,
            tuple(group for _, group in shared),
            tuple(self._decode_groups(alone, 0, lens, tables)),
            tuple(self._prefill_chunk(base, i, tables[i]) for i in range(num_decodes, len(lens))),
            tuple(kept),
        )

    def _shared_groups(
        self, lens: Sequence[int], tables: Sequence[Sequence[int]], kept: list[KeptRegion]
    ) -> list[tuple[tuple[int, ...], SharedGroup]]:
        """Groups and the sequences that each takes care of; what is kept for them goes to `kept`."""
        size = self._block_size
        # One token is left for the suffix, which then is never empty: the query's own.
        full = [list(table[: (n - 1) // size]) for n, table in zip(lens, tables, strict=False)]
        groups = []
        for prefix in shared_prefixes(full):
            members, start = prefix.sequences, prefix.num_blocks * size
            own_lens = [lens[i] for i in members]
            suffix_tables = [tables[i][prefix.num_blocks :] for i in members]
            ids = tuple(full[members[0]][: prefix.num_blocks])
            blocks = Blocks.of(ids, self._device)
            blocks = blocks.kept(kept, [size] * prefix.num_blocks, self._max_kept)
            suffixes = [
                self._kept_suffix(suffix, kept)
                for suffix in self._decode_groups(range(len(members)), start, own_lens, suffix_tables)
            ]
            groups.append(
                (members, SharedGroup(self._rows(members), ids, blocks, self._int64(own_lens), start, tuple(suffixes)))
            )
        return groups

    def _kept_suffix(self, suffix: DecodeGroup, kept: list[KeptRegion]) -> DecodeGroup:
        size = self._block_size
        width = suffix.blocks.ids.numel() // suffix.context_lens.numel()
        seen = [
            max(0, min(size, context_len - suffix.start - place * size))
            for context_len in suffix.context_lens.tolist()
            for place in range(width)
        ]
        return replace(suffix, blocks=suffix.blocks.kept(kept, seen, self._max_kept))

    def _decode_groups(
        self, chosen: Sequence[int], start: int, lens: Sequence[int], tables: Sequence[Sequence[int]]
    ) -> Iterator[DecodeGroup]:
        """Cut the chosen sequences, in their order, into groups worth padding to their longest."""
        first = 0
        for i in range(1, len(chosen) + 1):
            if i == len(chosen) or not self._worth_padding([lens[j] - start for j in chosen[first : i + 1]]):
                members = chosen[first:i]
                yield self._decode_group(members, start, [lens[j] for j in members], [tables[j] for j in members])
                first = i

    def _worth_padding(self, lens: Sequence[int]) -> bool:
        if max(lens) - min(lens) > CALL_TOKENS:
            return False
        # Two at least: torch's attention has one sequence and kv head for each thread to take.
        return len(lens) <= 2 or len(lens) * max(lens) * self._bytes_per_token <= GROUP_BYTES

    def _decode_group(
        self, members: Sequence[int], start: int, lens: Sequence[int], tables: Sequence[Sequence[int]]
    ) -> DecodeGroup:
        longest = max(lens) - start
        width = -(-longest // self._block_size)
        ids = [block for table in tables for block in self._padded(table[:width], width)]
        rows, blocks, context_lens = self._rows(members), Blocks.of(ids, self._device), self._int64(lens)
        if len(lens) == 1:
            return DecodeGroup(rows, blocks, start, context_lens, longest, None, None)
        num_tokens = width * self._block_size
        beyond = torch.arange(start, start + num_tokens, device=self._device) >= context_lens[:, None]
        bias = _bias(beyond, self._dtype)[:, None, None, :]
        return DecodeGroup(rows, blocks, start, context_lens, num_tokens, _numbers(beyond), bias)

    def _prefill_chunk(self, base: AttentionMetadata, i: int, table: Sequence[int]) -> PrefillChunk:
        context_len, query_len = base.context_lens[i], base.query_lens[i]
        tiles = []
        for offset in range(0, query_len, QUERY_TILE):
            tokens = min(QUERY_TILE, query_len - offset)
            visible = context_len - query_len + offset + tokens
            future = torch.full((tokens, visible), -torch.inf, dtype=self._dtype, device=self._device)
            start = base.query_starts[i] + offset
            tiles.append(QueryTile(slice(start, start + tokens), visible, future.triu_(visible - tokens + 1)))
        blocks = Blocks.of(table[: -(-context_len // self._block_size)], self._device)
        return PrefillChunk(blocks, tuple(tiles))

    def _rows(self, members: Sequence[int]) -> Rows:
        """One query token each, and decodes come first: their number is their row."""
        if members[-1] - members[0] == len(members) - 1:  # they are in ascending order
            return slice(members[0], members[-1] + 1)
        return self._int64(members)

    def _int64(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)

    @staticmethod
    def _padded(table: Sequence[int], width: int) -> list[int]:
        return [*table, *[0] * (width - len(table))]


def _before_window(positions: torch.Tensor, start: int, num_tokens: int, window: int) -> torch.Tensor:
    """Which tokens from `start` on lie before the windows of queries at these positions: [queries, num_tokens]."""
    tokens = torch.arange(start, start + num_tokens, device=positions.device)
    return tokens <= positions[:, None] - window


def _bias(hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)


def _numbers(chosen: torch.Tensor) -> torch.Tensor:
    """Where it is true, counted through."""
    return chosen.view(-1).nonzero().squeeze(1)
