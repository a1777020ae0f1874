"""What an epoch's row, its gaps and its cursor say of what is stored, against what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey


class StoredSums:
    """Added up over the chunks of an epoch. `end`: the message and the event after the last."""

    def __init__(self) -> None:
        self.events = self.chunks = 0
        self.first_seq: int | None = None
        self.last_seq: int | None = None
        self.last_ns: int | None = None
        self.end: tuple[int, int] | None = None

    def add(self, row: Any) -> None:
        self.events, self.chunks = self.events + row.num_events, self.chunks + 1
        wire_seq, seq = self.end or (0, 0)
        self.end = max(row.wire_seq1 + 1, wire_seq), max(row.seq1 + 1, seq)
        if row.num_events:
            self.first_seq = row.seq0 if self.first_seq is None else min(row.seq0, self.first_seq)
            self.last_seq = row.seq1 if self.last_seq is None else max(row.seq1, self.last_seq)
            self.last_ns = row.t1_ns if self.last_ns is None else max(row.t1_ns, self.last_ns)


def epoch_misfits(row: Any, stored: StoredSums, first_frame_seq: int | None) -> Iterator[str]:
    """What of an epoch's row does not fit its chunks."""
    kept = row.num_events - row.pruned_events, row.num_chunks - row.pruned_chunks
    if (stored.events, stored.chunks) != kept:
        yield f"it counts {kept[1]} chunks with {kept[0]} events, and {stored.chunks} with {stored.events} are stored"
    if row.pruned_seq is None:
        told = (row.first_seq, row.last_seq, row.last_ns)
        if told != (stored.first_seq, stored.last_seq, stored.last_ns):
            yield "its first or last event or its last time is not that of what is stored"
        if row.pruned_ns is not None or row.pruned_events:
            yield "nothing was pruned of it, and it says when or how much"
        return
    yield from _pruned_misfits(row, stored, first_frame_seq)


def _pruned_misfits(row: Any, stored: StoredSums, first_frame_seq: int | None) -> Iterator[str]:
    """Chunks before the edge may be there still while it is pruned."""
    if row.first_seq is None or row.last_seq is None or row.last_ns is None or row.pruned_ns is None:
        yield "it was pruned, and lacks what it had before"
        return
    end = row.last_seq + 1 if first_frame_seq is None else first_frame_seq
    if not row.first_seq <= row.pruned_seq < end:
        yield f"it was pruned up to event {row.pruned_seq}, and what is left begins with {end}"
    if (stored.last_seq if stored.last_seq is not None else row.pruned_seq) != row.last_seq:
        yield "its last event is not that of what is stored"
    if stored.last_ns is not None and row.last_ns < stored.last_ns:
        yield "its last time is before that of what is stored"


def cursor_misfits(connection: sa.Connection, key: EpochKey, row: Any, stored: StoredSums) -> Iterator[str]:
    """Everything before the cursor is stored or a gap, and it stands just behind the last of both."""
    cursor = models.cursor
    query = sa.select(cursor.c.next_wire_seq, cursor.c.next_seq).where(*of_epoch(cursor, key))
    at = connection.execute(query).one_or_none()
    ends = [end for end in (stored.end, _gap_end(connection, key)) if end is not None]
    if at is None:
        if ends or row.num_chunks:
            yield "there is none, and something is stored"
        return
    if ends and at.next_wire_seq != max(wire_seq for wire_seq, _ in ends):
        yield f"it stands before message {at.next_wire_seq}, and the last stored or missing is another"
    if ends and at.next_seq != max(seq for _, seq in ends):
        yield f"it stands before event {at.next_seq}, and the last stored or missing is another"
    if at.next_wire_seq < 0 or at.next_seq < 0 or (row.last_seq is not None and at.next_seq <= row.last_seq):
        yield "it stands before what is stored"


def _gap_end(connection: sa.Connection, key: EpochKey) -> tuple[int, int] | None:
    gap = models.gap
    end = sa.func.coalesce(gap.c.seq1 + 1, gap.c.seq0)
    query = sa.select(sa.func.max(gap.c.wire_seq1), sa.func.max(end)).where(*of_epoch(gap, key))
    wire_seq, seq = connection.execute(query).one()
    return None if wire_seq is None else (int(wire_seq) + 1, int(seq))
