"""The state of every block at any stored moment: the nearest keyframe at or before it, and the chunks from there.

What it costs grows with the distance between keyframes, not with the length of the history. A moment is the number of
an event; its state is the one just after that event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.chunk_folding import fold_chunks
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, read_chunk, read_chunks
from kvxray_storage.clock_runs import CROSSING_NS, ClockRuns, end_of_run
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.paged_rows import paged
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import POOL, EitherState, load_state

APART_NS: Final = 60 * 10**9
"""Two events so far apart are of one stretch of time; further apart, nobody knows whether the clock was set between."""
_MS: Final = 10**6


class NotStored(LookupError):
    """The moment lies where nothing is stored; the text says in one sentence why."""


def state_at(database: Database, key: EpochKey, seq: int) -> BlockMap:
    """The state just after event `seq`. Where events before it are not stored, what they may have changed is unknown.
    It has the bytes of some of its hashes only; `hash_lookup` finds the others.

    Raises NotStored, and DamagedChunk where stored bytes are not what was written.
    """
    with database.reading() as connection:
        state = state_of_keyframe(connection, key, seq)
        fold_chunks(state, read_chunks(connection, key, state.next_seq, state.next_wire_seq, seq), seq)
        if state.next_seq != seq + 1:
            check_is_passed(connection, key, seq)
            state.forget()
    return state


def seq_at_time(
    database: Database, key: EpochKey, t_ns: int, clock: ClockRuns | None = None, last_seq: int = 2**62
) -> int | None:
    """The last event, of those up to `last_seq`, that the engine's clock timed at or before a wall time; None when all
    are later.

    Last in the order of events: where the clock was set back, times occur twice, and what happened later counts.

    clock: what was seen of the clock before; else all chunks are looked at for it.
    """
    with database.reading() as connection:
        for first, last in (clock or ClockRuns()).begun_by(connection, key, t_ns, last_seq):
            found = _last_in_run(connection, key, first, last, t_ns)
            if found is not None:
                return found.seq
    return None


def seq_around_time(database: Database, key: EpochKey, t_ns: int, clock: ClockRuns) -> int | None:
    """The last event timed at or before a wall time, of the newest run that was lived around that time: its next event
    is a minute later at most, or this one is of the same millisecond. None when no run was.

    A clock that was set ahead and put right again told times that no later event has.
    """
    with database.reading() as connection:
        for first, last in clock.begun_by(connection, key, t_ns):
            end_ns = end_of_run(connection, key, first, last)
            if end_ns is None or end_ns + CROSSING_NS < t_ns:
                continue
            found = _last_in_run(connection, key, first, last, t_ns)
            if found is not None and _is_lived_around(connection, key, found, last, t_ns):
                return found.seq
    return None


def first_time(database: Database, key: EpochKey, clock: ClockRuns) -> tuple[int, int] | None:
    """The earliest wall time of any event stored, and the number of that event; None when there is none."""
    with database.reading() as connection:
        runs = sorted(clock.of(connection, key), key=lambda run: run.t0_ns)
        for run in runs:
            chunk = _chunk(connection, key, models.chunk.c.seq0 >= run.first)
            if chunk is not None:
                times = chunk.divisible.times
                return int(times.min()), chunk.seq_at(int(times.argmin()))
    return None


def state_of_keyframe(connection: sa.Connection, key: EpochKey, seq: int) -> BlockMap:
    """The newest stored state of the blocks that holds nothing later than event `seq`. A damaged one is passed over."""
    state = either_state_of_keyframe(connection, key, seq, POOL)
    assert isinstance(state, BlockMap), "what was asked for"
    return state


def either_state_of_keyframe(connection: sa.Connection, key: EpochKey, seq: int, kind: str) -> EitherState:
    """The same of this kind."""
    frame = models.keyframe
    query = sa.select(frame.c.seq, frame.c.wire_seq, frame.c.state).where(
        *of_epoch(frame, key), frame.c.kind == kind, frame.c.seq <= seq + 1
    )
    damaged = ""
    for row in paged(connection, query.order_by(frame.c.seq.desc()), 1):
        if row.seq == seq + 1 and _descriptor_between(connection, key, seq, row.wire_seq):
            continue
        try:
            return load_state(kind, row.state)
        except BadMessage as error:
            damaged = f"The keyframe before event {row.seq} cannot be read: {error}"
    if damaged:
        raise DamagedChunk(damaged)
    raise NotStored(_why_nothing_before(connection, key, seq, kind))


def newest_keyframe(connection: sa.Connection, key: EpochKey, seq: int) -> int | None:
    """Where the newest snapshot at or before a moment is: the event it comes before."""
    frame = models.keyframe
    query = sa.select(sa.func.max(frame.c.seq)).where(*of_epoch(frame, key), frame.c.kind == "pool")
    found = connection.execute(query.where(frame.c.seq <= seq + 1)).scalar()
    return None if found is None else int(found)


def check_is_passed(connection: sa.Connection, key: EpochKey, seq: int) -> None:
    """Event `seq` is not stored: raises NotStored unless it lies in a gap, so that something is known to follow."""
    chunk, gap = models.chunk, models.gap
    later = sa.select(chunk.c.wire_seq0).where(*of_epoch(chunk, key), chunk.c.seq1 > seq).limit(1)
    in_gap = sa.select(gap.c.wire_seq0).where(
        *of_epoch(gap, key), gap.c.seq0 <= seq, sa.or_(gap.c.seq1.is_(None), gap.c.seq1 >= seq)
    )
    if connection.execute(later).first() is None and connection.execute(in_gap.limit(1)).first() is None:
        last = connection.execute(sa.select(sa.func.max(chunk.c.seq1)).where(*of_epoch(chunk, key))).scalar()
        end = "nothing of its epoch is" if last is None else f"the last event of its epoch is {key.epoch}.{last}"
        raise NotStored(f"Event {key.epoch}.{seq} is not stored; {end}.")


def _descriptor_between(connection: sa.Connection, key: EpochKey, seq: int, wire_seq: int) -> bool:
    """Whether the source was changed after event `seq` and before message `wire_seq`: such a keyframe is too late."""
    chunk = models.chunk
    query = sa.select(chunk.c.wire_seq0).where(*of_epoch(chunk, key), chunk.c.seq1 == seq, chunk.c.num_events == 0)
    return connection.execute(query.where(chunk.c.wire_seq1 < wire_seq).limit(1)).first() is not None


def _why_nothing_before(connection: sa.Connection, key: EpochKey, seq: int, kind: str) -> str:
    frame = models.keyframe
    query = sa.select(sa.func.min(frame.c.seq)).where(*of_epoch(frame, key), frame.c.kind == kind)
    first = connection.execute(query).scalar()
    if first is None:
        return f"No state of epoch {key.epoch} is stored, so {key.epoch}.{seq} cannot be told."
    return f"The state at {key.epoch}.{seq} is not stored; the first is that before event {key.epoch}.{first}."


@dataclass(frozen=True, slots=True)
class _Found:
    """An event, its time, and that of the next one; None where its chunk ends with it."""

    seq: int
    t_ns: int
    next_ns: int | None


def _last_in_run(connection: sa.Connection, key: EpochKey, first: int, last: int, t_ns: int) -> _Found | None:
    """Of the chunks with events first..last, which are in the order of their time."""
    table = models.chunk
    end = _end_of_last_begun(connection, key, first, last, t_ns)
    while end is not None:
        chunk = _chunk(connection, key, table.c.seq1 == end)
        assert chunk is not None, "it was there a moment ago"
        times = chunk.divisible.times[: chunk.num_before(last + 1)]
        found = np.flatnonzero(times <= t_ns)
        if len(found):
            at = int(found[-1])
            next_ns = int(times[at + 1]) if at + 1 < len(times) else None
            return _Found(chunk.seq_at(at), int(times[at]), next_ns)
        # Its message begins by then, its first event does not.
        earlier = sa.select(sa.func.max(table.c.seq1)).where(*of_epoch(table, key), table.c.num_events > 0)
        end = connection.execute(earlier.where(table.c.seq1.between(first, chunk.place.seq0 - 1))).scalar()
    return None


def _is_lived_around(connection: sa.Connection, key: EpochKey, found: _Found, last: int, t_ns: int) -> bool:
    if found.t_ns // _MS == t_ns // _MS:
        return True
    chunk, next_ns = models.chunk, found.next_ns
    if next_ns is None:
        later = (*of_epoch(chunk, key), chunk.c.num_events > 0, chunk.c.seq1.between(found.seq + 1, last))
        next_ns = connection.execute(sa.select(chunk.c.t0_ns).where(*later).order_by(chunk.c.seq1).limit(1)).scalar()
    return next_ns is not None and next_ns - found.t_ns <= APART_NS


def _end_of_last_begun(connection: sa.Connection, key: EpochKey, first: int, last: int, t_ns: int) -> int | None:
    """The last event of the last chunk of a run that begins at or before the time: halved until it is found."""
    table = models.chunk
    columns = sa.select(table.c.seq1, table.c.t0_ns).where(*of_epoch(table, key), table.c.num_events > 0)
    newest = connection.execute(
        sa.select(sa.func.max(table.c.seq1)).where(*of_epoch(table, key), table.c.seq0 <= last)
    ).scalar()
    low, high, found = first, -1 if newest is None else int(newest), None
    while low <= high:
        middle = (low + high) // 2
        at_or_after = columns.where(table.c.seq1.between(middle, high)).order_by(table.c.seq1).limit(1)
        row: Any = connection.execute(at_or_after).first()
        if row is None or row.t0_ns > t_ns:
            high = middle - 1
        else:
            found, low = int(row.seq1), int(row.seq1) + 1
    return found


def _chunk(connection: sa.Connection, key: EpochKey, *conditions: sa.ColumnElement[bool]) -> StoredChunk | None:
    """The first chunk with events for which they hold."""
    table = models.chunk
    columns = (table.c.wire_seq0, table.c.wire_seq1, table.c.seq0, table.c.seq1)
    query = sa.select(*columns).where(*of_epoch(table, key), table.c.num_events > 0, *conditions)
    row = connection.execute(query.order_by(table.c.seq1).limit(1)).first()
    return None if row is None else read_chunk(connection, key, ChunkPlace(*row))
