"""Finds and decodes the chunks of a stretch of events, in the order they happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.cutting import Divisible, Joined
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from numpy.typing import NDArray

from kvxray_storage import models
from kvxray_storage.chunk import Chunk, decode_chunk
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents
from kvxray_storage.paged_rows import paged
from kvxray_storage.records import EpochKey

_AT_ONCE: Final = 8
_BEYOND_ALL: Final = sa.literal((1 << 63) - 1, sa.BigInteger)


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Messages and events of a chunk, both ends included. seq1 = seq0 - 1: it has no events."""

    wire_seq0: int
    wire_seq1: int
    seq0: int
    seq1: int

    def holds(self, seq: int) -> bool:
        return self.seq0 <= seq <= self.seq1

    @property
    def jumps(self) -> bool:
        """Whether the numbers of its events jump: it has several batches of an engine that tells of hashes."""
        first, last = self.seq0 // EVENTS_OF_BATCH, self.seq1 // EVENTS_OF_BATCH
        return self.wire_seq0 < self.wire_seq1 and (first, last) == (self.wire_seq0, self.wire_seq1)


class StoredChunk:
    """A decoded chunk. `num_bytes`: about what it takes of memory."""

    def __init__(self, place: ChunkPlace, data: bytes) -> None:
        self.place = place
        self._chunk = decode_chunk(data)
        self.num_bytes = 4096 + 8 * len(data)

    @property
    def chunk(self) -> Chunk:
        """As it was read."""
        return self._chunk

    @property
    def message(self) -> Message:
        """All its events."""
        return self._chunk.message

    @property
    def num_messages(self) -> int:
        return len(self._chunk.messages)

    @cached_property
    def divisible(self) -> Divisible:
        table = self._chunk.messages
        seq0 = table["seq0"] if self._chunk.message.next_seq is not None else None
        joined = Joined(table["operations"], table["names"], table["hashes"], table["step"], seq0)
        return Divisible(self._chunk.message, joined)

    def seq_at(self, position: int) -> int:
        """The number of one of its events."""
        return self.place.seq0 + position if self.message.next_seq is None else self.divisible.seq_at(position)

    def num_before(self, seq: int) -> int:
        """How many of its events have numbers below `seq`."""
        if self.message.next_seq is None:
            return min(max(seq - self.place.seq0, 0), self.message.header.n)
        return self.divisible.num_before(seq)

    def seqs(self) -> NDArray[np.int64]:
        """Numbers of all its events, growing."""
        return ChunkEvents(self._chunk).seqs()

    def step_ends(self) -> NDArray[np.int64]:
        """Numbers of the events that end a message, growing."""
        ends = self.divisible.message_ends - 1
        if self.message.next_seq is None:
            return self.place.seq0 + ends
        return np.array([self.seq_at(end) for end in ends.tolist()], np.int64)

    def part(self, first_seq: int, last_seq: int) -> Message | None:
        """Its events within first_seq..last_seq; None when there are none."""
        begin, end = self.num_before(first_seq), self.num_before(last_seq + 1)
        if begin >= end:
            return None
        is_whole = (begin, end) == (0, self.message.header.n)
        return self.message if is_whole else self.divisible.part(begin, end)


def end_of_chunk_at(key: EpochKey, seq: int) -> sa.ColumnElement[int]:
    """The last event of the first chunk that ends at or after `seq`, beyond all others when all end before: a part of
    the question about what comes up to there, so that it costs no question of its own.
    """
    chunk = models.chunk.alias()
    here = (chunk.c.source_id == key.source_id, chunk.c.epoch == key.epoch)
    query = sa.select(sa.func.min(chunk.c.seq1)).where(*here, chunk.c.seq1 >= seq)
    return sa.func.coalesce(query.scalar_subquery(), _BEYOND_ALL)


def read_chunk(connection: sa.Connection, key: EpochKey, place: ChunkPlace) -> StoredChunk:
    chunk = models.chunk
    query = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == place.wire_seq0)
    return StoredChunk(place, connection.execute(query).scalar_one())


def read_chunks(
    connection: sa.Connection, key: EpochKey, next_seq: int, next_wire_seq: int, last_seq: int
) -> Iterator[StoredChunk]:
    """Chunks with messages from `next_wire_seq` and events from `next_seq` on (the same place, told twice) that begin
    at or before event `last_seq`, in order. Looks at nothing beyond.
    """
    chunk = models.chunk
    # A chunk without events ends, by its number, one event before it begins.
    inside = (
        chunk.c.seq1 >= next_seq - 1, chunk.c.seq1 <= end_of_chunk_at(key, last_seq), chunk.c.seq0 <= last_seq,
        chunk.c.wire_seq1 >= next_wire_seq,
    )  # fmt: skip
    columns = (chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1, chunk.c.data)
    query = sa.select(*columns).where(*of_epoch(chunk, key), *inside).order_by(chunk.c.seq1, chunk.c.wire_seq0)
    for *place, data in paged(connection, query, _AT_ONCE):
        yield StoredChunk(ChunkPlace(*place), data)
