"""Which sequences of a step begin with the same blocks: their common beginning can be attended over once for all.

Cascade attention (FlashInfer, arXiv 2501.01005; Hydragen, arXiv 2402.05099) needs only the block tables for this: equal
block ids are equal keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

MIN_SHARED_BLOCKS: Final = 4
"""Fewer are not worth a second pass and the merge."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """At least two sequences and the number of leading blocks that all of them have."""

    sequences: tuple[int, ...]  # indices into the block tables, in their order there
    num_blocks: int

    @property
    def blocks_saved(self) -> int:
        """Blocks that need not be read, as against each sequence reading its own."""
        return (len(self.sequences) - 1) * self.num_blocks


def shared_prefixes(block_tables: Sequence[list[int]], min_blocks: int = MIN_SHARED_BLOCKS) -> tuple[SharedPrefix, ...]:
    """Disjoint groups of sequences by common leading blocks, chosen to save the most reads.

    `block_tables`: of each sequence the blocks that it may share, that is full ones that every query of it sees whole.
    """
    order = sorted(
        (i for i, table in enumerate(block_tables) if len(table) >= min_blocks), key=block_tables.__getitem__
    )
    best = []
    for _, same in groupby(order, key=lambda i: block_tables[i][0]):
        best += _best_groups(block_tables, list(same), min_blocks)
    return tuple(best)


def _best_groups(tables: Sequence[list[int]], members: list[int], min_blocks: int) -> list[SharedPrefix]:
    """Of sequences in lexicographic order: all together, or apart by where they first differ, if that saves more."""
    if len(members) < 2:
        return []
    common = _common_length(tables[members[0]], tables[members[-1]])  # sorted: the ends differ the most
    together = [SharedPrefix(tuple(sorted(members)), common)] if common >= min_blocks else []
    apart: list[SharedPrefix] = []
    longer = [i for i in members if len(tables[i]) > common]
    for _, same in groupby(longer, key=lambda i: tables[i][common]):
        apart += _best_groups(tables, list(same), min_blocks)
    return max(together, apart, key=lambda groups: sum(group.blocks_saved for group in groups))


def _common_length(first: Sequence[int], last: Sequence[int]) -> int:
    for n, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return n
    return min(len(first), len(last))
