"""From one stored moment to the next or the one before: by events, or by steps of the engine.

A step ends with the message that told it. Chunks between are counted by their rows, not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from kvxray_storage import models
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, end_of_chunk_at
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.paged_rows import paged
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import holds_a_state

Unit = Literal["event", "step"]
ReadChunk = Callable[[ChunkPlace], StoredChunk]

_AT_ONCE = 16


def step_from(connection: sa.Connection, key: EpochKey, seq: int, by: Unit, n: int, read: ReadChunk) -> int:
    """The moment `n` events or steps after `seq`, or before it where n < 0; the last or first event where there are
    fewer. Goes over gaps.

    read: gives a chunk of the epoch.
    """
    if n == 0:
        return seq
    left, edge = abs(n), seq
    for place in _after(connection, key, seq) if n > 0 else _before(connection, key, seq):
        moments = _moments(place, seq, by, n > 0)
        if moments is None or moments >= left:
            beyond = _beyond(place, seq, by, n > 0, read)
            if len(beyond) >= left:
                return _not_too_early(connection, key, seq, int(beyond[left - 1]))
            moments = len(beyond)
        if place.seq0 <= place.seq1:
            edge = place.seq1 if n > 0 else place.seq0
        left -= moments
    return _not_too_early(connection, key, seq, edge)


def _beyond(place: ChunkPlace, seq: int, by: Unit, forward: bool, read: ReadChunk) -> Sequence[int] | NDArray[np.int64]:
    """The chunk's moments beyond `seq`, the nearest first."""
    if by == "event" and place.jumps:
        seqs = read(place).seqs()
        return seqs[seqs > seq] if forward else seqs[seqs < seq][::-1]
    if by == "event":
        return (
            range(max(seq + 1, place.seq0), place.seq1 + 1)
            if forward
            else range(min(seq - 1, place.seq1), place.seq0 - 1, -1)
        )
    ends = read(place).step_ends()
    return ends[ends > seq] if forward else ends[ends < seq][::-1]


def _moments(place: ChunkPlace, seq: int, by: Unit, forward: bool) -> int | None:
    """How many of the chunk lie beyond `seq`; None where only the chunk itself can tell."""
    if place.seq1 < place.seq0:
        return 0
    if by == "event":
        if place.jumps:
            return None
        return place.seq1 - max(seq, place.seq0 - 1) if forward else min(seq, place.seq1 + 1) - place.seq0
    return None if place.holds(seq) else place.wire_seq1 - place.wire_seq0 + 1


def _after(connection: sa.Connection, key: EpochKey, seq: int) -> Iterator[ChunkPlace]:
    """Chunks with events after `seq`, in order."""
    chunk = models.chunk
    query = _places(key).where(chunk.c.seq1 > seq).order_by(chunk.c.seq1, chunk.c.wire_seq0)
    return _read(connection, query)


def _before(connection: sa.Connection, key: EpochKey, seq: int) -> Iterator[ChunkPlace]:
    """Chunks with events before `seq`, the last first."""
    chunk = models.chunk
    before = _places(key).where(chunk.c.seq0 < seq, chunk.c.seq1 <= end_of_chunk_at(key, seq))
    return _read(connection, before.order_by(chunk.c.seq1.desc(), chunk.c.wire_seq0.desc()))


def _places(key: EpochKey) -> sa.Select[tuple[int, int, int, int]]:
    chunk = models.chunk
    return sa.select(chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1).where(*of_epoch(chunk, key))


def _read(connection: sa.Connection, query: sa.Select[tuple[int, int, int, int]]) -> Iterator[ChunkPlace]:
    for row in paged(connection, query, _AT_ONCE):
        yield ChunkPlace(row.wire_seq0, row.wire_seq1, row.seq0, row.seq1)


def _not_too_early(connection: sa.Connection, key: EpochKey, seq: int, found: int) -> int:
    """Going back ends where states begin: at the first keyframe."""
    if found >= seq:
        return found
    frame = models.keyframe
    query = sa.select(sa.func.min(frame.c.seq)).where(*of_epoch(frame, key), holds_a_state())
    return max(found, min(seq, int(connection.execute(query).scalar() or 0)))
