"""Blocks that were given out while they were cached, and the prompts that hit them since by the hash that is gone.

A hit tells the block and not the hash that it was found by. So it is taken for one of the old hash where the block
carries none, or where its own does not fit between the blocks that the same prompt hit before and after it. Costs
nothing while no block is stale. Pure array work.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from kvxray_engine.stream.columns import U4, kind_table
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Cause, Kind
from kvxray_engine.stream.transitions import TELLS_HASH, Rows

MAX_STALE: Final = 10_000
"""Blocks, of which those given out first are forgotten first; and as many who hit them."""
_MATTERS: Final = kind_table(
    frozenset({Kind.BlockAllocated, Kind.BlockReferenced, Kind.BlockEvicted, Kind.BlockCached})
)


@dataclass(frozen=True, slots=True)
class GivenOut:
    """A block given to `holder` by event `seq` (wall `t_ns`) while it was cached under `block_hash` (None: that was
    never told).
    """

    holder: int
    seq: int
    t_ns: int
    block_hash: bytes | None


class StaleHit(NamedTuple):
    """The row that hits a stale block. is_certain: the block carries no hash by which it could be hit."""

    row: int
    given: GivenOut
    is_certain: bool


class StaleBlocks:
    """Until their eviction is told. Invariant: at most `MAX_STALE` of them. `_misled`: holders that hit one; what they
    cache themselves is told to follow from what they read, which says nothing of its place.
    """

    def __init__(self) -> None:
        self._given: dict[int, GivenOut] = {}
        self._misled: set[int] = set()
        self._unplaced: set[int] = set()

    def __len__(self) -> int:
        return len(self._given)

    def copy(self) -> StaleBlocks:
        made = StaleBlocks()
        made._given, made._misled, made._unplaced = dict(self._given), set(self._misled), set(self._unplaced)
        return made

    def forget(self, blocks: Iterable[int]) -> None:
        """These carry no hash any more, nor does one lead to them."""
        for block in blocks:
            self._given.pop(block, None)
            self._unplaced.discard(block)

    def follow(self, fresh: Mapping[int, GivenOut], carried: CarriedHashes) -> list[StaleHit]:
        """Hits of stale blocks in a batch, by the hash that is gone. fresh: by row, those that become stale in it."""
        rows, found = carried.rows, list[StaleHit]()
        suspects = np.array([*self._given, *rows.blk[[*fresh]].tolist()], np.uint32)
        for row in np.flatnonzero(_MATTERS[rows.kind] & np.isin(rows.blk, suspects)).tolist():
            block, kind = int(rows.blk[row]), rows.kind[row]
            given = fresh.get(row) or self._given.get(block)
            if given is None:
                continue
            if kind == Kind.BlockCached:
                (self._unplaced.add if int(rows.req[row]) in self._misled else self._unplaced.discard)(block)
            elif kind == Kind.BlockEvicted:
                self.forget((block,))
            elif kind == Kind.BlockAllocated:
                # Whoever it is given to next, what leads to it has not been told to be gone.
                seq, t_ns = int(rows.seq[row]), int(rows.t[row])
                self._note(block, replace(given, holder=int(rows.req[row]), seq=seq, t_ns=t_ns))
            elif rows.cause[row] == Cause.hit and carried.is_out_of_place(row, self._given, self._unplaced):
                self._note_misled(int(rows.req[row]))
                found.append(StaleHit(row, given, carried.ordinal(row) == NO_ORDINAL))
        return found

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        assert max(len(self._given), len(self._misled)) <= MAX_STALE, "too many stale blocks or readers are remembered"
        assert self._unplaced <= self._given.keys(), "a block without a place is not stale"

    def _note(self, block: int, given: GivenOut) -> None:
        self.forget((block,))
        if len(self._given) >= MAX_STALE:
            self.forget((next(iter(self._given)),))
        self._given[block] = given

    def _note_misled(self, reader: int) -> None:
        if len(self._misled) >= MAX_STALE:
            self._misled.clear()
        self._misled.add(reader)


@dataclass(frozen=True, slots=True, eq=False)
class CarriedHashes:
    """Which hash a block carries at a row of a batch. `ordinals`, `parents`: one a block, before the batch."""

    rows: Rows
    ordinals: U4
    parents: U4
    hashes: HashTable

    def is_out_of_place(self, row: int, suspects: Container[int], unplaced: Container[int]) -> bool:
        """Whether the block that this row hits cannot have been found by the hash that it carries: it carries none, or
        another than the prompt's blocks before and after it lead to, as far as those are no suspects themselves.
        unplaced: of whose hash nobody can say where it belongs.
        """
        if self.ordinal(row) >= UNKNOWN_U4:
            return self.ordinal(row) == NO_ORDINAL
        if int(self.rows.blk[row]) in unplaced:
            return False
        rows, after = self.rows, row + 1
        if rows.index_in_op[row]:
            begins_a_prompt = self._parent(row) in (-1, NO_ORDINAL)
            if begins_a_prompt or int(rows.blk[row - 1]) not in suspects and self._is_other(row - 1, row):
                return True
        goes_on = after < len(rows.blk) and rows.index_in_op[after] and int(rows.blk[after]) not in suspects
        return bool(goes_on) and self._is_other(row, after)

    def _is_other(self, row: int, following: int) -> bool:
        """Whether two blocks that a prompt hit one after the other are known not to be of one chain."""
        carries, continues = self._bytes(self.ordinal(row)), self._bytes(self._parent(following))
        return carries is not None and continues is not None and carries != continues

    def _told_at(self, row: int) -> int:
        """The last row before this one that tells of its block's hash; -1: none in this batch."""
        rows = self.rows
        told = np.flatnonzero((rows.blk[:row] == rows.blk[row]) & TELLS_HASH[rows.kind[:row]])
        return int(told[-1]) if len(told) else -1

    def ordinal(self, row: int) -> int:
        """That of the hash that the row's block carries by then."""
        told_at = self._told_at(row)
        after = self.ordinals[self.rows.blk[row]] if told_at < 0 else self.rows.hash_after(np.array([told_at]))[0]
        return int(after)

    def _parent(self, row: int) -> int:
        """That of the hash before it in its chain."""
        if self.ordinal(row) >= UNKNOWN_U4:
            return NO_ORDINAL
        told_at = self._told_at(row)
        return int(self.parents[self.rows.blk[row]] if told_at < 0 else self.rows.val[told_at])

    def _bytes(self, ordinal: int) -> bytes | None:
        return self.hashes.get(ordinal) if 0 <= ordinal < UNKNOWN_U4 else None
