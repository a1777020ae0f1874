"""Folds what is stored of an epoch up to its end, in bounded slices: after a start, after something came late, and to
make keyframes and rollups anew.

Begins at the last keyframe that has its open rollups. Where it stops half-way, what it made stands, and whoever comes
next goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk, read_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.epoch_fold import EpochFold
from kvxray_storage.fold_rows import (
    OpenRollup,
    begin_anew,
    note_rollup,
    touched_rollups,
    write_keyframes,
    write_rollups,
)
from kvxray_storage.fold_start import FoldStart
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.rollup_book import TimeWentBack

SLICE_CHUNKS: Final = 16

logger = logging.getLogger(__name__)

Writing = Callable[[], AbstractContextManager[sa.Connection]]


@dataclass(slots=True, eq=False)
class _Made:
    """What one slice writes. `passed`: the engine's keyframes by seq, with the rollups that were open there."""

    keyframes: list[Keyframe] = field(default_factory=list)
    passed: dict[int, bytes] = field(default_factory=dict)
    rollups: list[OpenRollup] = field(default_factory=list)


class CatchUp:
    """One epoch's fold on its way. `fold`: None until the first slice, and while nothing of the epoch is stored."""

    def __init__(self, database: Database, key: EpochKey, writing: Writing) -> None:
        """writing: one transaction, as `Database.writing`."""
        self.fold: EpochFold | None = None
        self._database = database
        self._key = key
        self._writing = writing
        self._start = FoldStart(database, key)
        self._is_anew = False

    def run(self, seconds: float) -> bool:
        """Folds for about so long; True when it has all that is stored. Raises what the database does."""
        until = time.monotonic() + seconds
        while not self._slice():
            if time.monotonic() >= until:
                return False
        return True

    def begin_anew(self) -> None:
        """Takes back what was folded before, and begins with the first chunk."""
        with self._writing() as connection:
            begin_anew(connection, self._key)
        self.fold, self._is_anew = None, True

    def _slice(self) -> bool:
        made = _Made()
        if self.fold is None and not self._is_anew and not self._start.can_go_on():
            self.begin_anew()
        try:
            with self._database.reading() as connection:
                self.fold = self.fold or self._begin(connection, made)
                is_done = self.fold is None or self._fold_some(connection, self.fold, made)
        except TimeWentBack:
            # The row has events from before and after the place where this fold began: count all of them again.
            self.begin_anew()
            return False
        self._write(made)
        if is_done and self.fold is not None:
            self.fold.book.read_row = self._start.read_row
        return is_done

    def _begin(self, connection: sa.Connection, made: _Made) -> EpochFold | None:
        found = None if self._is_anew else self._start.last_folded(connection)
        # Where none can be read, what is stored of rollups is counted over, row by row.
        found = found or self._start.first(connection)
        if found is None:
            return None
        if found.keyframe is not None:
            made.keyframes.append(found.keyframe)
        if found.passed is not None:
            made.passed[found.passed[0]] = found.passed[1]
        return found.fold

    def _fold_some(self, connection: sa.Connection, fold: EpochFold, made: _Made) -> bool:
        """True when what is stored ends here."""
        chunk = models.chunk
        columns = (chunk.c.wire_seq0, chunk.c.wire_seq1, chunk.c.seq0, chunk.c.seq1)
        at_or_before = (*of_epoch(chunk, self._key), chunk.c.wire_seq0 <= fold.next_wire_seq)
        begin = connection.execute(sa.select(sa.func.max(chunk.c.wire_seq0)).where(*at_or_before)).scalar()
        query = sa.select(*columns).where(
            *of_epoch(chunk, self._key),
            chunk.c.wire_seq0 >= (fold.next_wire_seq if begin is None else begin),
            chunk.c.wire_seq1 >= fold.next_wire_seq,
        )
        rows = connection.execute(query.order_by(chunk.c.wire_seq0).limit(SLICE_CHUNKS)).all()
        is_end = len(rows) < SLICE_CHUNKS
        # What the engine told within this stretch, or after its end, and was not folded up to yet.
        frames = deque(self._start.frames(connection, *_ahead(fold, None if is_end else rows[-1].wire_seq1)))
        for row in rows:
            self._fold_chunk(connection, fold, ChunkPlace(*row), frames, made)
        for frame in frames:
            self._pass(connection, fold, frame, made)
        made.rollups = touched_rollups(self._key, fold.book)
        return is_end

    def _fold_chunk(
        self,
        connection: sa.Connection,
        fold: EpochFold,
        place: ChunkPlace,
        frames: deque[Any],
        made: _Made,
    ) -> None:
        try:
            chunk = read_chunk(connection, self._key, place)
        except DamagedChunk as error:
            # Its messages are missing for the fold, as they are for every reader.
            logger.warning("a stored chunk cannot be folded: %s", error)
            fold.skip_to(place.wire_seq1 + 1, place.seq1 + 1, lost=True)
            return
        while frames and frames[0].wire_seq <= place.wire_seq1:
            frame = frames.popleft()
            if frame.wire_seq > place.wire_seq0:
                # In the middle of a chunk, which therefore came late.
                self._fold_up_to(fold, chunk, min(frame.seq - 1, place.seq1))
            self._pass(connection, fold, frame, made)
        self._fold_up_to(fold, chunk, place.seq1)
        if fold.next_wire_seq <= place.wire_seq1:
            # What is left of it are messages without events.
            fold.skip_to(place.wire_seq1 + 1, place.seq1 + 1, lost=False)
        if fold.is_due:
            made.keyframes.append(fold.keyframe())

    def _fold_up_to(self, fold: EpochFold, chunk: StoredChunk, last_seq: int) -> None:
        """What the fold lacks of a chunk."""
        place = chunk.place
        if fold.next_wire_seq <= place.wire_seq0 and last_seq == place.seq1:
            fold.fold(place.wire_seq0, chunk.message)
            return
        part = chunk.part(fold.next_seq, last_seq)
        if part is not None:
            fold.fold(max(place.wire_seq0, fold.next_wire_seq), part)

    def _pass(self, connection: sa.Connection, fold: EpochFold, frame: Any, made: _Made) -> None:
        state = self._start.load(connection, frame)
        if state is not None:
            made.passed[frame.seq] = fold.adopt(frame.wire_seq, frame.seq, state)

    def _write(self, made: _Made) -> None:
        if not (made.keyframes or made.passed or made.rollups):
            return
        with self._writing() as connection:
            write_keyframes(connection, made.keyframes)
            write_rollups(connection, made.rollups)
            for seq, rollup in made.passed.items():
                note_rollup(connection, self._key, seq, rollup)
        if self.fold is not None:
            self.fold.book.tidy()


def _ahead(fold: EpochFold, last_wire_seq: int | None) -> list[sa.ColumnElement[bool]]:
    """Keyframes that were not folded up to yet, from where the fold stands."""
    frame = models.keyframe
    conditions = [frame.c.rollup.is_(None), frame.c.wire_seq >= fold.next_wire_seq]
    return conditions if last_wire_seq is None else [*conditions, frame.c.wire_seq <= last_wire_seq]
