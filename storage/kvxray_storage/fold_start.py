"""Where the fold of a stored epoch begins: at the last keyframe that was folded up to, else with the first message."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.epoch_fold import EpochFold
from kvxray_storage.fold_rows import read_rollup
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.rollup_book import RollupBook, RollupRow, TimeWentBack
from kvxray_storage.state_kinds import EitherState, holds_a_state, load_state, read_descriptor

logger = logging.getLogger(__name__)


class Beginning(NamedTuple):
    """A fold, and what is to be stored with it: a keyframe of its own, or the rollups at the one it began from."""

    fold: EpochFold
    keyframe: Keyframe | None = None
    passed: tuple[int, bytes] | None = None


class FoldStart:
    """Reads of one epoch."""

    def __init__(self, database: Database, key: EpochKey) -> None:
        self._database = database
        self._key = key

    def can_go_on(self) -> bool:
        """Whether some keyframe was folded up to."""
        with self._database.reading() as connection:
            return any(True for _ in self.frames(connection, models.keyframe.c.rollup.is_not(None)))

    def last_folded(self, connection: sa.Connection) -> Beginning | None:
        """None where none of those keyframes can be read."""
        for frame in self.frames(connection, models.keyframe.c.rollup.is_not(None), newest_first=True):
            fold = self._fold_from(connection, frame)
            if fold is not None:
                return Beginning(fold)
        return None

    def first(self, connection: sa.Connection) -> Beginning | None:
        """None while nothing is stored."""
        return self._from_first_keyframe(connection) or self._from_first_chunk(connection)

    def is_anything_stored(self) -> bool:
        """A chunk or a keyframe."""
        with self._database.reading() as connection:
            return any(
                connection.execute(sa.select(table.c.epoch).where(*of_epoch(table, self._key)).limit(1)).first()
                for table in (models.chunk, models.keyframe)
            )

    def read_row(self, span: int, start: int) -> RollupRow | None:
        with self._database.reading() as connection:
            return read_rollup(connection, self._key, span, start)

    def frames(
        self, connection: sa.Connection, *conditions: sa.ColumnElement[bool], newest_first: bool = False
    ) -> Iterator[Any]:
        """Keyframes in order, without their states."""
        frame = models.keyframe
        columns = (frame.c.seq, frame.c.wire_seq, frame.c.rollup, frame.c.kind)
        query = sa.select(*columns).where(*of_epoch(frame, self._key), holds_a_state(), *conditions)
        order = (frame.c.wire_seq, frame.c.seq)
        return iter(connection.execute(query.order_by(*([c.desc() for c in order] if newest_first else order))).all())

    def load(self, connection: sa.Connection, frame: Any) -> EitherState | None:
        table = models.keyframe
        query = sa.select(table.c.state).where(*of_epoch(table, self._key), table.c.seq == frame.seq)
        try:
            return load_state(frame.kind, connection.execute(query.where(table.c.kind == frame.kind)).scalar_one())
        except BadMessage as error:
            logger.warning("a stored keyframe cannot be read: %s", error)
            return None

    def _from_first_keyframe(self, connection: sa.Connection) -> Beginning | None:
        chunk = models.chunk
        first = connection.execute(
            sa.select(sa.func.min(chunk.c.wire_seq0)).where(*of_epoch(chunk, self._key))
        ).scalar()
        for frame in self.frames(connection):
            if first is not None and frame.wire_seq > first:
                return None
            fold = self._fold_from(connection, frame)
            if fold is not None:
                fold.book.read_row = self.read_row
                fold.book.touch_all()
                return Beginning(fold, passed=(frame.seq, fold.book.encode()))
        return None

    def _from_first_chunk(self, connection: sa.Connection) -> Beginning | None:
        chunk, epoch = models.chunk, models.epoch
        columns = (chunk.c.wire_seq0, chunk.c.seq0, chunk.c.t0_ns)
        query = sa.select(*columns).where(*of_epoch(chunk, self._key)).order_by(chunk.c.wire_seq0).limit(1)
        first = connection.execute(query).one_or_none()
        if first is None:
            return None
        told = sa.select(sa.func.coalesce(epoch.c.first_descriptor, epoch.c.descriptor))
        text = connection.execute(told.where(*of_epoch(epoch, self._key))).scalar_one()
        book = RollupBook(self.read_row)
        fold = EpochFold.without_keyframe(self._key, read_descriptor(text.encode()), *first, book)
        return Beginning(fold, keyframe=fold.keyframe())

    def _fold_from(self, connection: sa.Connection, frame: Any) -> EpochFold | None:
        """From a stored keyframe; None where it cannot be read."""
        state = self.load(connection, frame)
        if state is None:
            return None
        book = RollupBook(_no_older_row)
        try:
            if frame.rollup is not None:
                book.decode(frame.rollup)
        except ValueError as error:
            logger.warning("%s", error)
            return None
        state.next_wire_seq, state.next_seq = frame.wire_seq, frame.seq
        return EpochFold(self._key, state, book)


def _no_older_row(span: int, start: int) -> RollupRow | None:
    raise TimeWentBack(f"a row of {span} s at {start} is older than what a keyframe carries")
