"""Events one by one, out of a chunk's columns: numbers, times, steps and names of the few that a reader asks for.

Everything per event is found by position; only the events asked for become objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kvxray_engine.stream.columns import HAS_VALUE
from kvxray_engine.stream.event_times import at_completion
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind
from numpy.typing import NDArray

from kvxray_storage.block_filter import ROWS_ARE_HASHES, VALUE_IS_A_BLOCK
from kvxray_storage.chunk import Chunk

I8 = NDArray[np.int64]
_PREEMPTED: Final = int(Kind.RequestPreempted)
_LOW32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `t_ns`: wall ns. `req`: ordinal of the holder (NO_ORDINAL none), `request_id` its id where its name is
    known.

    `block_id`: for kinds with rows of blocks. `value`: for kinds that have one (ref after, slots, source block, the
    parent's hash ordinal); a residency event has its hash ordinal here. `a0`, `a1`: as the kind defines them.
    """

    seq: int
    t_ns: int
    step: int
    kind: Kind
    cause: Cause
    req: int
    request_id: str | None
    block_id: int | None
    value: int | None
    a0: int
    a1: int
    taker_id: str | None = None
    """Of a preemption the request that its blocks went to, where that is told and its name is known."""


class ChunkEvents:
    """The events of one chunk by position 0..len-1, which is the order they happened in."""

    def __init__(self, chunk: Chunk) -> None:
        self._columns = columns = chunk.message.columns
        counts = columns.events_by_operation()
        self._ends = np.cumsum(counts)
        self._begins = self._ends - counts
        values = np.where(HAS_VALUE[columns.kind], columns.n, 0).astype(np.int64)
        self._first_row = _before(columns.n.astype(np.int64))
        self._first_value = _before(values)
        message_of = np.repeat(np.arange(len(chunk.messages)), chunk.messages["operations"])
        self._time, self._step, self._a0 = _clock(chunk, message_of)
        # seq = position + offset, the offset being the message's own: `seq` may jump from one to the next.
        first_of_message = _first_events(chunk.messages["operations"], self._begins)
        self._seq_offset = (chunk.messages["seq0"] - first_of_message)[message_of]

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def by_operation(self) -> tuple[I8, I8, I8, NDArray[np.uint32]]:
        """Of each operation: the position of its first event, wall ns, step, and a0 as its message told it."""
        return self._begins, self._time, self._step, self._a0

    def operations_at(self, positions: I8) -> I8:
        """The operation of each event."""
        return np.searchsorted(self._ends, positions, side="right").astype(np.int64)

    def seqs(self) -> I8:
        """`seq` of every event, growing."""
        positions = np.arange(len(self))
        return positions + self._seq_offset[self.operations_at(positions)]

    def named_at(self, positions: I8) -> list[int]:
        """Ordinals of all whom these events name, each once: their holders, and who took the blocks of the preempted.
        NO_ORDINAL is among them where an event names nobody.
        """
        columns, operations = self._columns, self.operations_at(positions)
        takers = columns.a1[operations][columns.kind[operations] == _PREEMPTED]
        return [int(one) for one in np.unique(np.concatenate([columns.req[operations], takers]))]

    def kinds_at(self, positions: I8) -> NDArray[np.uint8]:
        """What each of these events is."""
        return self._columns.kind[self.operations_at(positions)]

    def positions_of_holder(self, ordinal: int) -> I8:
        """Events that name the holder."""
        operations = np.flatnonzero(self._columns.req == ordinal)
        return self.positions_in(operations)

    def positions_in(self, operations: I8) -> I8:
        """All events of these operations (in order)."""
        counts = self._ends[operations] - self._begins[operations]
        positions: I8 = np.repeat(self._ends[operations] - np.cumsum(counts), counts) + np.arange(counts.sum())
        return positions

    def positions_of_kind(self, kind: Kind) -> I8:
        return self.positions_in(np.flatnonzero(self._columns.kind == kind))

    def position_of_cached(self, ordinal: int) -> int | None:
        """The BlockCached that gave a block the hash with this ordinal."""
        columns = self._columns
        first = columns.a0.astype(np.int64)
        is_it = (columns.kind == Kind.BlockCached) & (first <= ordinal) & (ordinal < first + columns.n)
        found = np.flatnonzero(is_it)
        return int(self._begins[found[0]] + ordinal - first[found[0]]) if len(found) else None

    def positions_of_block(self, block: int) -> I8:
        """Events that name the block, as the source of a copy or move too."""
        columns = self._columns
        operation = np.repeat(np.arange(len(columns.kind)), columns.n)
        named = (columns.blk == block) & ~ROWS_ARE_HASHES[columns.kind[operation]]
        rows = np.flatnonzero(named | self._rows_from(block))
        inside = rows - self._first_row[operation[rows]]
        positions: I8 = self._begins[operation[rows]] + inside
        return positions

    def positions_of_hashes(self, ordinals: NDArray[np.uint32]) -> I8:
        """Residency events of these hashes."""
        columns = self._columns
        operation = np.repeat(np.arange(len(columns.kind)), columns.n)
        rows = np.flatnonzero(ROWS_ARE_HASHES[columns.kind[operation]] & np.isin(columns.blk, ordinals))
        positions: I8 = self._begins[operation[rows]] + rows - self._first_row[operation[rows]]
        return positions

    def _rows_from(self, block: int) -> NDArray[np.bool_]:
        columns = self._columns
        found = np.zeros(len(columns.blk), bool)
        for operation in np.flatnonzero(VALUE_IS_A_BLOCK[columns.kind]):
            row, value, n = self._first_row[operation], self._first_value[operation], columns.n[operation]
            found[row : row + n] = columns.val[value : value + n] == block
        return found

    def rows(self, positions: I8, names: Mapping[int, str]) -> list[EventRow]:
        """These events as objects; `names`: ids of holders by ordinal."""
        operations = self.operations_at(positions)
        inside = (positions - self._begins[operations]).tolist()
        return [
            self._row(position, operation, offset, names)
            for position, operation, offset in zip(positions.tolist(), operations.tolist(), inside, strict=True)
        ]

    def _row(self, position: int, operation: int, offset: int, names: Mapping[int, str]) -> EventRow:
        columns = self._columns
        kind, req, n = int(columns.kind[operation]), int(columns.req[operation]), int(columns.n[operation])
        block = int(columns.blk[self._first_row[operation] + offset]) if n else None
        value = int(columns.val[self._first_value[operation] + offset]) if n and HAS_VALUE[kind] else None
        if ROWS_ARE_HASHES[kind]:
            block, value = None, block
        return EventRow(
            seq=position + int(self._seq_offset[operation]),
            t_ns=int(self._time[operation]),
            step=int(self._step[operation]),
            kind=Kind(kind),
            cause=Cause(int(columns.cause[operation])),
            req=req,
            request_id=names.get(req) if req != NO_ORDINAL else None,
            block_id=block,
            value=value,
            a0=int(self._a0[operation]),
            a1=int(columns.a1[operation]),
            taker_id=names.get(int(columns.a1[operation])) if kind == _PREEMPTED else None,
        )


def _before(counts: I8) -> I8:
    """The sum of all entries before each."""
    return np.cumsum(counts) - counts


def _first_events(operations: NDArray[Any], begins: I8) -> I8:
    """The position of the first event of each message."""
    first_operation = np.cumsum(operations, dtype=np.int64) - operations
    # A last message without operations has no first event: any number does.
    firsts: I8 = np.append(begins, 0)[first_operation]
    return firsts


def _clock(chunk: Chunk, message_of: I8) -> tuple[I8, I8, NDArray[np.uint32]]:
    """Time and step of each operation, and a0 as its own message told it.

    StepStarted times the operations up to the next one of the same message (results of a step: its end, as the fold has
    it); before the first its t0 counts. Joining
    moved a0 of StepStarted by whole microseconds, which are taken off again.
    """
    columns, messages = chunk.message.columns, chunk.messages
    t0, step = messages["t0_ns"][message_of], messages["step"][message_of]
    is_start = columns.kind == Kind.StepStarted
    shift = (messages["t0_ns"] - chunk.message.header.t0_wall_ns) // 1000
    a0 = columns.a0.copy()
    a0[is_start] -= shift[message_of[is_start]].astype(np.uint32)
    last_start = np.maximum.accumulate(np.where(is_start, np.arange(len(a0)), -1)) if len(a0) else message_of
    timed = (last_start >= 0) & (message_of[last_start] == message_of)
    at = last_start[timed]
    time, steps = t0.copy(), step.copy()
    time[timed] += a0[at].astype(np.int64) * 1000
    # The event has the step's low 32 bits, the header all of them.
    steps[timed] = (step[timed] & ~_LOW32) | columns.a1[at].astype(np.int64)
    return at_completion(columns, time), steps, a0
