"""Rows of a batch spread out for the fold: one entry a row in every column. Pure array work.

Knows how operations own rows; knows nothing of the state but what it is handed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import HAS_VALUE, I8, U1, U4, Columns
from kvxray_engine.stream.schema import NO_ORDINAL, Kind

BoolTable = NDArray[np.bool_]
Index = NDArray[np.intp]


@dataclass(slots=True, eq=False)
class Rows:
    """Rows of consecutive operations. `alone`: the kind, when the operation must be folded by itself; `a0` is then its
    own.
    """

    kind: U1
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
        cached = self.kind[at] == Kind.BlockCached
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
    names = ("kind", "req", "blk", "val", "group", "first_hash", "index_in_op", "t", "seq")
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
