"""Moving through history: states at the moments lately looked at, each with the chunks it came through and the way
back, so that the next moment costs what lies between and not what lies behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream.block_map import BlockMap

from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, read_chunk
from kvxray_storage.database import Database
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import check_is_passed
from kvxray_storage.travel_cursor import TravelCursor
from kvxray_storage.travel_steps import Unit, step_from

MAX_BYTES: Final = 256 << 20


class Traveller:
    """Safe to call from any thread: a cursor is taken out while somebody moves it, and others make their own.

    `_cursors`: the least lately used first; together at most `max_bytes`, those in use not counted.
    """

    def __init__(self, database: Database, *, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._cursors: list[TravelCursor] = []

    @contextmanager
    def reading(self, key: EpochKey, seq: int) -> Iterator[BlockMap]:
        """The state just after event `seq`, for as long as the block lasts: to be read, not changed and not kept.

        Raises what `time_travel.state_at` does.
        """
        cursor = self._take(key, seq)
        if cursor is not None and cursor.is_all_known_at(seq):
            state = cursor.state
        else:
            cursor, state = self._ask(key, seq, cursor)
        try:
            yield state
        finally:
            self._give_back(cursor)

    def state_at(self, key: EpochKey, seq: int) -> BlockMap:
        """The state just after event `seq`: a copy of the caller's own."""
        with self.reading(key, seq) as state:
            return state.copy()

    def step(self, key: EpochKey, seq: int, by: Unit, n: int) -> int:
        """The moment `n` events or steps after `seq` (n < 0: before); the last or first where there are fewer."""
        with self._database.reading() as connection:
            return step_from(connection, key, seq, by, n, lambda place: self._chunk(connection, key, place))

    @property
    def num_bytes(self) -> int:
        """About what the cursors take of memory."""
        with self._lock:
            return sum(cursor.num_bytes for cursor in self._cursors)

    def check_integrity(self) -> None:
        with self._lock:
            assert sum(cursor.num_bytes for cursor in self._cursors) <= self._max_bytes, "too much is kept"
            for cursor in self._cursors:
                cursor.check_integrity()

    def _ask(self, key: EpochKey, seq: int, cursor: TravelCursor | None) -> tuple[TravelCursor, BlockMap]:
        """What the database has of the moment."""
        with self._database.reading() as connection:
            cursor = TravelCursor.at(connection, key, seq, cursor)
            state = cursor.state
            if state.next_seq != seq + 1:
                check_is_passed(connection, key, seq)
                state = state.copy()
                state.forget()
        return cursor, state

    def _take(self, key: EpochKey, seq: int) -> TravelCursor | None:
        """The cursor that reaches the moment most cheaply, if any does."""
        with self._lock:
            near = [cursor for cursor in self._cursors if cursor.key == key and cursor.reaches(seq)]
            best = min(near, key=lambda cursor: cursor.distance(seq), default=None)
            if best is not None:
                self._cursors.remove(best)
            return best

    def _give_back(self, cursor: TravelCursor) -> None:
        with self._lock:
            self._cursors.append(cursor)
            kept = sum(one.num_bytes for one in self._cursors)
            while kept > self._max_bytes:
                kept -= self._cursors.pop(0).num_bytes

    def _chunk(self, connection: sa.Connection, key: EpochKey, place: ChunkPlace) -> StoredChunk:
        with self._lock:
            for cursor in self._cursors:
                found = cursor.chunk_at(key, place)
                if found is not None:
                    return found
        return read_chunk(connection, key, place)
