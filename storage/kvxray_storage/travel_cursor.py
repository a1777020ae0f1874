"""One state on its way through an epoch, with the chunks it came through lately and what takes each of them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream.block_map import BLOCK_COLUMNS, BlockMap
from kvxray_engine.stream.schema import BlockState
from kvxray_engine.stream.undo import Undo

from kvxray_storage import models
from kvxray_storage.chunk_folding import fold_chunks, pass_hole
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, read_chunks
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.time_travel import newest_keyframe, state_of_keyframe

NEAR_EVENTS: Final = 16_384
"""So far ahead a cursor goes step by step; farther, a state from a keyframe is cheaper or no dearer."""
STRETCH: Final = 2048
"""Events that are taken back at once, at most: a step back folds up to so many again, however large the chunks are."""
WAY_BACK: Final = 65_536
"""Events that a cursor made to go backwards can take back before it needs the keyframe again,"""
SHORT_WAY: Final = 4096
"""and any other."""
LONGEST_WAY: Final = 64
"""Stretches."""


@dataclass(slots=True, eq=False)
class _Passed:
    """A stretch of a chunk that the state has come through, or is in. `seq`: the last event before it; `last`: its
    last one.
    """

    seq: int
    last: int
    chunk: StoredChunk
    undo: Undo


class TravelCursor:
    """`state` is just after event `seq`, or after the last stored one before it.

    `_way`: the last stretches it came through, in order. `_based_on`: what it knew its blocks from.
    """

    def __init__(self, key: EpochKey, state: BlockMap, based_on: tuple[int, int, int]) -> None:
        self.key = key
        self.state = state
        self._way: deque[_Passed] = deque()
        self._based_on = based_on

    @classmethod
    def at(cls, connection: sa.Connection, key: EpochKey, seq: int, cursor: TravelCursor | None) -> TravelCursor:
        """`cursor` moved to the moment where it can be, else a new one."""
        backwards = cursor is not None and seq < cursor.seq
        if cursor is not None and cursor._move(connection, seq) and cursor._knows_best(connection, seq):
            return cursor
        made = cls(key, state_of_keyframe(connection, key, seq), _source_of_knowledge(connection, key, seq))
        chunks = read_chunks(connection, key, made.state.next_seq, made.state.next_wire_seq, seq)
        begin, way = seq - (WAY_BACK if backwards else SHORT_WAY), list[StoredChunk]()
        fold_chunks(made.state, _keeping_later(chunks, begin, way), begin)
        made._pass(way, seq)
        return made

    def is_all_known_at(self, seq: int) -> bool:
        """Whether it came to the moment over what it has, and nothing stored could tell more of it; moves it."""
        return self._move_within(seq) and self.seq == seq and self._knows_all

    @property
    def seq(self) -> int:
        return self.state.next_seq - 1

    @property
    def num_bytes(self) -> int:
        """About what it takes of memory."""
        state = self.state
        columns: int = sum(getattr(state, name).nbytes for name in (*BLOCK_COLUMNS, "state", "ref"))
        tables = state.holders.num_bytes + state.hashes.num_bytes + 300 * len(state.requests)
        chunks = {one.chunk for one in self._way}
        return columns + tables + sum(one.num_bytes for one in chunks) + sum(one.undo.num_bytes for one in self._way)

    def reaches(self, seq: int) -> bool:
        """Whether it is worth trying: the moment lies ahead, not far, or on the way it came; or it was the nearest
        when somebody went back one chunk too many.
        """
        first = self._way[0].seq if self._way else self.seq
        return first - NEAR_EVENTS <= seq <= self.seq + NEAR_EVENTS

    def distance(self, seq: int) -> int:
        return abs(seq - self.seq)

    def chunk_at(self, key: EpochKey, place: ChunkPlace) -> StoredChunk | None:
        if key != self.key:
            return None
        return next((one.chunk for one in self._way if one.chunk.place == place), None)

    def check_integrity(self) -> None:
        self.state.check_integrity(with_hashes=False)
        begins = [one.seq for one in self._way] + [self.seq]
        assert begins == sorted(begins), "the way back is out of order"
        assert len(self._way) <= LONGEST_WAY, "the way back is too long"

    def _knows_best(self, connection: sa.Connection, seq: int) -> bool:
        """Whether the keyframe before the moment could tell no more. What is unknown may be told by a snapshot on the
        way, or was by messages that came late.
        """
        if self.seq == seq and self._knows_all:
            return True
        return self._based_on == _source_of_knowledge(connection, self.key, seq)

    @property
    def _knows_all(self) -> bool:
        return self.state.holders_known and not self.state.counts()[BlockState.unknown]

    def _move(self, connection: sa.Connection, seq: int) -> bool:
        """False: it cannot go back so far."""
        if not self._move_within(seq):
            return False
        if self.seq < seq:
            state = self.state
            self._pass(read_chunks(connection, self.key, state.next_seq, state.next_wire_seq, seq), seq)
        return True

    def _move_within(self, seq: int) -> bool:
        """As near as the chunks on its way take it; False: it cannot go back so far."""
        # A chunk without events is taken back with what follows it: it changes the blocks after that moment.
        while self._way and seq <= self._way[-1].seq:
            self.state = self._way.pop().undo.take_back(self.state)
        if seq < self.seq:
            if not self._way:
                return False
            self.state = self._way[-1].undo.take_back(self.state)
        if self._way and self.seq < seq:
            self._pass([self._way[-1].chunk], seq)
        return True

    def _pass(self, chunks: Iterable[StoredChunk], seq: int) -> None:
        """Folds stretch by stretch, keeping the way back. There is none over what was forgotten."""
        for chunk in chunks:
            if pass_hole(self.state, chunk):
                self._way.clear()
            for last in _ends_of_stretches(chunk, self.state.next_seq, seq):
                if chunk.place.wire_seq1 < self.state.next_wire_seq:
                    break
                self._enter(chunk, last)
                if fold_chunks(self.state, [chunk], min(last, seq)):
                    self._way.clear()
                    break

    def _enter(self, chunk: StoredChunk, last: int) -> None:
        """Keeps what takes back the stretch up to event `last`, unless the state is inside it."""
        state, way = self.state, self._way
        if way and way[-1].chunk is chunk and state.next_seq <= way[-1].last:
            return
        stretch = chunk.part(state.next_seq, last) or chunk.message
        way.append(_Passed(self.seq, last, chunk, Undo(state, stretch)))
        if len(way) > LONGEST_WAY:
            way.popleft()


def _ends_of_stretches(chunk: StoredChunk, next_seq: int, seq: int) -> Iterator[int]:
    """The last event of each stretch of the chunk, from the one with `next_seq` to the one with `seq`."""
    place = chunk.place
    first = place.seq0 + max(0, next_seq - place.seq0) // STRETCH * STRETCH
    for last in (*range(first + STRETCH - 1, place.seq1, STRETCH), place.seq1):
        yield last
        if last >= seq:
            return


def _keeping_later(chunks: Iterable[StoredChunk], seq: int, later: list[StoredChunk]) -> Iterator[StoredChunk]:
    """The chunks, of which those that go on after event `seq` are in `later` once they were taken."""
    for chunk in chunks:
        if chunk.place.seq1 > seq:
            later.append(chunk)
        yield chunk


def _source_of_knowledge(connection: sa.Connection, key: EpochKey, seq: int) -> tuple[int, int, int]:
    """Changes where a later keyframe tells of the moment, or a gap was filled after all."""
    gap = models.gap
    query = sa.select(sa.func.count(gap.c.repaired_ns), sa.func.max(gap.c.repaired_ns)).where(*of_epoch(gap, key))
    count, newest = connection.execute(query).one()
    return newest_keyframe(connection, key, seq) or 0, int(count), int(newest or 0)
