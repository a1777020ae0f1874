"""Rows of a batch spread out for the fold: one entry a row in every column. Pure array work.

Knows how operations own rows; knows nothing of the state but what it is handed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import HAS_VALUE, I8, U1, U4, Columns, kind_table
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Kind

BoolTable = NDArray[np.bool_]
Index = NDArray[np.intp]

# Plain numbers: to compare a column with a member of an enum takes numpy seven times as long.
_ALLOCATED, _CACHED, _EVICTED = int(Kind.BlockAllocated), int(Kind.BlockCached), int(Kind.BlockEvicted)
TELLS_HASH: Final = kind_table(frozenset({Kind.BlockAllocated, Kind.BlockCached, Kind.BlockEvicted}))


@dataclass(slots=True, eq=False)
class Rows:
    """Rows of consecutive operations. `alone`: the kind, when the operation must be folded by itself; `a0` is then its
    own.
    """

    kind: U1
    cause: U1
    req: U4
    blk: U4
    val: I8
    group: U1
    first_hash: I8
    index_in_op: I8
    t: I8
    seq: I8
    alone: Kind | None = None
    a0: int = 0

    def hash_after(self, at: Index) -> U4:
        """Hash ordinals after the rows `at`: that of BlockCached, none after an allocation or eviction."""
        cached = self.kind[at] == _CACHED
        ordinal = self.first_hash[at] + self.index_in_op[at]
        return np.where(cached, ordinal, NO_ORDINAL).astype(np.uint32)


def rows_of(columns: Columns, times: I8, seq0: int, is_alone: BoolTable) -> Iterator[Rows]:
    """The rows in order, cut before and after each operation that must be folded alone."""
    rows = _spread(columns, times, seq0)
    alone = np.flatnonzero(is_alone[columns.kind])
    if not len(alone):
        yield rows
        return
    ends = np.cumsum(columns.n.astype(np.int64))
    start = 0
    for operation in alone.tolist():
        end = int(ends[operation])
        before = end - int(columns.n[operation])
        if before > start:
            yield _cut(rows, start, before)
        single = _cut(rows, before, end)
        single.alone, single.a0 = Kind(int(columns.kind[operation])), int(columns.a0[operation])
        yield single
        start = end
    if start < len(rows.blk):
        yield _cut(rows, start, len(rows.blk))


def _spread(columns: Columns, times: I8, seq0: int) -> Rows:
    n = columns.n.astype(np.intp)
    kind = np.repeat(columns.kind, n)
    val = np.zeros(len(kind), np.int64)
    val[HAS_VALUE[kind]] = columns.val
    row0 = np.cumsum(n) - n
    events = columns.events_by_operation()
    event0 = np.cumsum(events) - events
    index = np.arange(len(kind)) - np.repeat(row0, n)
    return Rows(
        kind=kind,
        cause=np.repeat(columns.cause, n),
        req=np.repeat(columns.req, n),
        blk=columns.blk,
        val=val,
        group=np.repeat(columns.a1, n).astype(np.uint8),
        first_hash=np.repeat(columns.a0.astype(np.int64), n),
        index_in_op=index,
        t=np.repeat(times, n),
        seq=seq0 + np.repeat(event0, n) + index,
    )


def _cut(rows: Rows, start: int, end: int) -> Rows:
    names = ("kind", "cause", "req", "blk", "val", "group", "first_hash", "index_in_op", "t", "seq")
    fields: list[Any] = [getattr(rows, name)[start:end] for name in names]
    return Rows(*fields)


def last_of_each(blocks: U4, scratch: U4) -> U4:
    """Each block once, in the order of its last row. `scratch`: one entry a block, contents do not matter."""
    order = np.arange(len(blocks), dtype=np.uint32)
    scratch[blocks] = order
    kept: U4 = blocks[scratch[blocks] == order]
    return kept


def double_frees(blk: U4, freed: BoolTable, ref_after: U4, ref_before: U4) -> Index:
    """Which rows free a block that is free already. One entry a row that tells references, in order; `ref_before`: one
    a block, before this batch.
    """
    # Sorted by block and then by place in one number: faster than any stable sort.
    order = np.sort((blk.astype(np.uint64) << np.uint64(32)) | np.arange(len(blk), dtype=np.uint64)).astype(np.uint32)
    blk = blk[order]
    before = np.concatenate(([0], ref_after[order[:-1]]))
    first = np.concatenate(([True], blk[1:] != blk[:-1]))
    before[first] = ref_before[blk[first]]
    found: Index = np.sort(order[freed[order] & (before == 0)].astype(np.intp))
    return found


def hashed_when_allocated(rows: Rows, hash_before: U4, scratch: U4) -> tuple[Index, U4]:
    """Which rows give out a block that still carries a hash, and the ordinals of those hashes. `hash_before`: one a
    block, before this batch; `scratch`: likewise, contents do not matter.
    """
    at = np.flatnonzero(rows.kind == _ALLOCATED)
    blk = rows.blk[at]
    carries = hash_before[blk] < UNKNOWN_U4
    if carries.any():
        carries &= _first_of(rows, _EVICTED, blk, scratch) > at
    carries |= _first_of(rows, _CACHED, blk, scratch) < at
    if not carries.any():
        return np.zeros(0, np.intp), np.zeros(0, np.uint32)
    return _followed(rows, blk[carries], hash_before)


def _first_of(rows: Rows, kind: int, blocks: U4, scratch: U4) -> U4:
    """For each of these blocks its first row of a kind, past all rows where there is none."""
    at = np.flatnonzero(rows.kind == kind)[::-1]  # of several that are written to one place the last one stays
    scratch[blocks] = NO_ORDINAL
    scratch[rows.blk[at]] = at
    first: U4 = scratch[blocks]
    return first


def _followed(rows: Rows, suspects: U4, hash_before: U4) -> tuple[Index, U4]:
    """`hashed_when_allocated` for a few blocks, row by row: a joined batch may give out a block more than once."""
    carried = {int(block): int(hash_before[block]) for block in suspects}
    found: list[tuple[int, int]] = []
    for row in np.flatnonzero(np.isin(rows.blk, suspects) & TELLS_HASH[rows.kind]).tolist():
        block, kind = int(rows.blk[row]), rows.kind[row]
        if kind == _ALLOCATED and carried[block] < UNKNOWN_U4:
            found.append((row, carried[block]))
        cached = int(rows.first_hash[row] + rows.index_in_op[row])
        carried[block] = cached if kind == _CACHED else NO_ORDINAL
    return np.array([row for row, _ in found], np.intp), np.array([ordinal for _, ordinal in found], np.uint32)
