"""Residency events spread out for the fold: one entry a row in every column, and counts that never fall below none.
Pure array work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import HAS_VALUE, I8, U1, U4, Columns
from kvxray_engine.stream.residency_descriptor import ANY_GROUP
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Cause, Kind

Bools = NDArray[np.bool_]
Index = NDArray[np.intp]

_SPREAD: Final = 1 << 34
"""More than any count or sum of a batch: counts of one key, lifted by it, lie above all of the key before."""


@dataclass(slots=True, eq=False)
class ResidencyRows:
    """`parent`: hash ordinal, NO_ORDINAL of a root, UNKNOWN_U4 where it was not told. `operation`: index of the row's
    own; `is_first`: it is the first row of it.
    """

    ordinal: U4
    place: NDArray[np.uint16]
    is_store: Bools
    cause: U1
    parent: U4
    block_size: NDArray[np.uint16]
    req: U4
    t: I8
    seq: I8
    operation: I8
    is_first: Bools

    def __len__(self) -> int:
        return len(self.ordinal)

    def take(self, at: Index | slice) -> ResidencyRows:
        taken: list[Any] = [getattr(self, one.name)[at] for one in fields(self)]
        return ResidencyRows(*taken)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hash ordinal and place in one number."""
        joined: NDArray[np.uint64] = self.ordinal.astype(np.uint64) << np.uint64(16) | self.place
        return joined


@dataclass(slots=True, eq=False)
class Segment:
    """Rows that are folded together; or removals that name no group; or a medium that is cleared."""

    rows: ResidencyRows
    is_any_group: bool = False
    cleared: int | None = None
    t: int = 0


def segments_of(columns: Columns, times: I8, seq0: int) -> Iterator[Segment]:
    """The events in order, cut before and after whatever must be folded by itself."""
    rows = spread(columns, times, seq0)
    is_cleared = columns.kind == Kind.CacheCleared
    is_any = _is_any_group(columns)
    ends = np.cumsum(columns.n.astype(np.int64))
    begins = ends - columns.n
    start = 0
    for first, last in _runs(is_cleared, is_any):
        begin, end = int(begins[first]), int(ends[last])
        if begin > start:
            yield Segment(rows.take(slice(start, begin)))
        cleared = int(columns.a0[first]) if is_cleared[first] else None
        yield Segment(rows.take(slice(begin, end)), cleared is None, cleared, int(times[first]))
        start = end
    if start < len(rows):
        yield Segment(rows.take(slice(start, None)))


def spread(columns: Columns, times: I8, seq0: int) -> ResidencyRows:
    n = columns.n.astype(np.intp)
    operation = np.repeat(np.arange(len(n)), n)
    row0 = np.cumsum(n) - n
    events = columns.events_by_operation()
    event0 = np.cumsum(events) - events
    index = np.arange(len(operation)) - np.repeat(row0, n)
    a1, cause = columns.a1[operation], columns.cause[operation]
    val = np.full(len(operation), -1, np.int64)
    val[HAS_VALUE[columns.kind[operation]]] = columns.val
    parent = np.where(val < 0, NO_ORDINAL, val)
    parent[(cause == Cause.placeholder) & (val < 0)] = UNKNOWN_U4
    return ResidencyRows(
        ordinal=columns.blk,
        place=(a1 & 0xFFFF).astype(np.uint16),
        is_store=columns.kind[operation] == Kind.ResidencyStored,
        cause=cause,
        parent=parent.astype(np.uint32),
        block_size=(a1 >> 16).astype(np.uint16),
        req=columns.req[operation],
        t=times[operation],
        seq=seq0 + event0[operation] + index,
        operation=operation,
        is_first=index == 0,
    )


def running_counts(starts: Index, at_first: I8, steps: I8, floors: I8) -> tuple[I8, I8]:
    """Counts before and after each row, one key after the other. `starts`: the first row of each key; `at_first`: each
    key's count before it. A row makes max(count + step, floor) of a count.

    Such rows, one after the other, come to max(count + sum of steps, the best that any floor comes to since), and that
    is a running sum and a running maximum.
    """
    lengths = np.diff(starts, append=len(steps))
    sums = np.cumsum(steps)
    sums -= np.repeat((sums - steps)[starts], lengths)
    best = floors - sums
    best[starts] = np.maximum(best[starts], at_first)
    lifted = np.repeat(np.arange(len(starts)) * _SPREAD, lengths)
    after: I8 = sums + np.maximum.accumulate(best + lifted) - lifted
    before = np.empty_like(after)
    before[1:] = after[:-1]
    before[starts] = at_first
    return before, after


def _runs(is_cleared: Bools, is_any: Bools) -> Iterator[tuple[int, int]]:
    """First and last operation of what is folded by itself: each clear, and removals without a group in a row."""
    first = np.flatnonzero(is_cleared | (is_any & ~np.concatenate(([False], is_any[:-1]))))
    last = np.flatnonzero(is_cleared | (is_any & ~np.concatenate((is_any[1:], [False]))))
    yield from zip(first.tolist(), last.tolist(), strict=True)


def _is_any_group(columns: Columns) -> Bools:
    is_removed = columns.kind == Kind.ResidencyRemoved
    found: Bools = is_removed & ((columns.a1 & 0xFF) == ANY_GROUP)
    return found
