"""Parts of a message, cut between any two of its events, that fold to exactly what the whole does.

A part alone could not tell when its operations happened (a step's results are timed by its end, which may lie beyond
the cut), so it carries the times and steps of the whole. A message tells its names and hashes as it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.codec import Message, Timing
from kvxray_engine.stream.columns import HAS_VALUE, I8, Columns
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.schema import Header, Kind


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The messages that were joined to one, in order: how many operations, names and hashes each has, and its step.
    `seq0`: where each one's numbers begin, if they jump; None: all follow each other.
    """

    operations: NDArray[Any]
    names: NDArray[Any]
    hashes: NDArray[Any]
    step: NDArray[Any]
    seq0: NDArray[Any] | None = None


class _Cut(NamedTuple):
    """What lies before a position: whole operations, and rows of the next one; rows and values in all."""

    operations: int
    rows_inside: int
    rows: int
    values: int


class Divisible:
    """A message, or several joined, to be cut. Positions count its events, 0 to `num_events`.

    Laws: parts 0..k and k..end fold to what the whole folds to; the part 0..end is the whole.
    """

    def __init__(self, message: Message, joined: Joined | None = None) -> None:
        self.message = message
        columns = message.columns
        self._joined = joined = joined or _alone(message)
        self._timing = timing_of(message)
        self._events_end: I8 = np.cumsum(columns.events_by_operation())
        self._rows_end: I8 = np.cumsum(columns.n, dtype=np.int64)
        self._values_end: I8 = np.cumsum(np.where(HAS_VALUE[columns.kind], columns.n, 0), dtype=np.int64)
        self._message_end = _up_to(self._events_end, np.cumsum(joined.operations, dtype=np.int64))
        self._names_told: I8 = np.append(0, np.cumsum(joined.names, dtype=np.int64))
        self._hashes_told: I8 = np.append(0, np.cumsum(joined.hashes, dtype=np.int64))

    @property
    def num_events(self) -> int:
        return int(self._events_end[-1]) if len(self._events_end) else 0

    @property
    def num_bytes(self) -> int:
        """About what it takes of memory."""
        columns = self.message.columns
        return 2048 + 60 * columns.num_operations + 8 * columns.num_rows + len(columns.hashes)

    @property
    def times(self) -> I8:
        """Wall ns of each event."""
        return np.repeat(self._timing.times, self.message.columns.events_by_operation())

    @property
    def message_ends(self) -> I8:
        """Positions at which a message was complete, growing."""
        ends: I8 = np.unique(self._message_end)
        return ends[ends > 0]

    def seq_at(self, position: int) -> int:
        """The number of an event."""
        if self._joined.seq0 is None:
            return self.message.header.seq0 + position
        at = int(np.searchsorted(self._message_end, position, side="right"))
        return int(self._joined.seq0[at]) + position - (int(self._message_end[at - 1]) if at else 0)

    def num_before(self, seq: int) -> int:
        """How many of the events have numbers below `seq`."""
        first = self.message.header.seq0
        if self._joined.seq0 is None or seq <= first:
            return min(max(seq - first, 0), self.num_events)
        at = int(np.searchsorted(self._joined.seq0, seq, side="right")) - 1
        begin = int(self._message_end[at - 1]) if at else 0
        return min(begin + seq - int(self._joined.seq0[at]), int(self._message_end[at]))

    def part(self, begin: int, end: int) -> Message:
        """The events at positions begin..end-1 as a message of its own."""
        if begin == 0 and end == self.num_events:
            return self.message
        assert 0 <= begin < end <= self.num_events, f"{begin}..{end} is no part of {self.num_events} events"
        first, last = self._cut(begin), self._cut(end)
        operations = slice(first.operations, last.operations + (1 if last.rows_inside else 0))
        told = self._told(begin), self._told(end)
        columns = self._columns(operations, first, last)
        width = self.message.header.hash_width
        hashes0, hashes1 = (int(self._hashes_told[at]) * width for at in told)
        columns.hashes = self.message.columns.hashes[hashes0:hashes1]
        whole = self._timing
        timing = Timing(whole.times[operations], whole.steps[operations], whole.begun[operations])
        next_seq = None if self._joined.seq0 is None else self.seq_at(end - 1) + 1
        return Message(self._header(begin, end, told), columns, timing, next_seq)

    def _cut(self, position: int) -> _Cut:
        at = int(np.searchsorted(self._events_end, position, side="right"))
        inside = position - (int(self._events_end[at - 1]) if at else 0)
        rows, values = (int(self._rows_end[at - 1]), int(self._values_end[at - 1])) if at else (0, 0)
        has_value = bool(inside) and bool(HAS_VALUE[self.message.columns.kind[at]])
        return _Cut(at, inside, rows + inside, values + (inside if has_value else 0))

    def _columns(self, operations: slice, first: _Cut, last: _Cut) -> Columns:
        """All but the hashes; the first and the last operation keep the rows that lie inside."""
        whole = self.message.columns
        kind, n, a0 = whole.kind[operations], whole.n[operations].copy(), whole.a0[operations].copy()
        if len(n) and last.rows_inside:
            n[-1] = last.rows_inside
        if len(n) and first.rows_inside:
            n[0] -= first.rows_inside
            if kind[0] == Kind.BlockCached:
                a0[0] += first.rows_inside  # the ordinal of its first row's hash
        return Columns(
            kind, whole.cause[operations], whole.req[operations], n, a0, whole.a1[operations],
            whole.blk[first.rows : last.rows], whole.val[first.values : last.values],
        )  # fmt: skip

    def _told(self, position: int) -> int:
        """How many of the joined messages have begun before the event at `position` does."""
        if position == self.num_events:
            return len(self._message_end)
        return 0 if position == 0 else int(np.searchsorted(self._message_end, position)) + 1

    def _header(self, begin: int, end: int, told: tuple[int, int]) -> Header:
        whole = self.message.header
        names0, names1 = (int(self._names_told[at]) for at in told)
        begun = told[1]
        is_complete = end >= int(self._message_end[begun - 1])
        wire_seq0 = whole.wire_seq - len(self._message_end) + 1
        return msgspec.structs.replace(
            whole,
            seq0=self.seq_at(begin),
            n=end - begin,
            wire_seq=wire_seq0 + begun - 1 - (0 if is_complete else 1),
            step=int(self._joined.step[begun - 1]),
            req0=whole.req0 + names0,
            names=whole.names[names0:names1],
            hash0=whole.hash0 + int(self._hashes_told[told[0]]),
            descriptor=whole.descriptor if begin == 0 else b"",
        )


def _alone(message: Message) -> Joined:
    header, columns = message.header, message.columns
    num_hashes = len(columns.hashes) // header.hash_width
    return Joined(*(np.array([one]) for one in (columns.num_operations, len(header.names), num_hashes, header.step)))


def _up_to(ends: I8, counts: I8) -> I8:
    """The end of the first so many."""
    found: I8 = np.append(0, ends)[counts]
    return found
