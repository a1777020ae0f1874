"""Which number an epoch has, and where the database left it.

Numbers are given here, by the one writer, so that they are known before the first commit and do not need one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import OPENING_ERRORS, Database
from kvxray_storage.epoch_progress import Admission, Progress
from kvxray_storage.records import EpochKey

MAX_GAPS: Final = 10_000
"""Open gaps of an epoch that late messages are recognised for; older ones stay gaps."""


@dataclass(slots=True)
class _Source:
    """`promised`: the least number that its next epoch may get."""

    source_id: int
    epochs: dict[str, int] = field(default_factory=dict)
    promised: int = 1

    @property
    def next_epoch(self) -> int:
        return max(max(self.epochs.values(), default=0) + 1, self.promised)


class EpochDirectory:
    """Sources and epochs by name and incarnation: those of the database and those numbered since."""

    def __init__(self, database: Database) -> None:
        """Raises what a database that cannot be read raises."""
        self._database = database
        self._lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._newest = self._newest_epochs()
        self._promised: dict[str, int] = {}

    def find_or_number(self, source: str, incarnation: str) -> EpochKey:
        """The epoch's key; a new source or incarnation gets the next number, from 1 on."""
        with self._lock:
            found = self._known(source)
            if incarnation not in found.epochs:
                found.epochs[incarnation] = found.next_epoch
            return EpochKey(found.source_id, found.epochs[incarnation])

    def next_epoch(self, source: str) -> int:
        """The number that the next new incarnation of a source will get; while the database cannot be asked it goes by
        what was there when the directory was made, and keeps to that.
        """
        with self._lock:
            try:
                return self._known(source).next_epoch
            except OPENING_ERRORS:
                return self._promised.setdefault(source, self._newest.get(source, 0) + 1)

    def totals(self) -> tuple[int, int]:
        """Events and chunks stored, of all epochs."""
        epoch = models.epoch
        query = sa.select(sa.func.sum(epoch.c.num_events), sa.func.sum(epoch.c.num_chunks))
        with self._database.reading() as connection:
            events, chunks = connection.execute(query).one()
        return int(events or 0), int(chunks or 0)

    def progress(self, key: EpochKey) -> Progress:
        """What the database has of the epoch."""
        epoch, cursor = models.epoch, models.cursor
        columns = (epoch.c.first_seq, epoch.c.last_seq, epoch.c.last_ns, epoch.c.num_events, epoch.c.num_chunks)
        with self._database.reading() as connection:
            stored = connection.execute(sa.select(*columns).where(*of_epoch(epoch, key))).one_or_none()
            at = connection.execute(
                sa.select(cursor.c.next_wire_seq, cursor.c.next_seq).where(*of_epoch(cursor, key))
            ).one_or_none()
        progress = Progress(key) if stored is None else Progress(key, None, None, *stored)
        return progress if at is None else Progress(key, *at, *(stored or ()))

    def admission(self, key: EpochKey) -> Admission:
        """Which message is next, and which ones before it are missing: gaps less what was stored in them later."""
        gap, chunk = models.gap, models.chunk
        open_gaps = (
            sa.select(gap.c.wire_seq0, gap.c.wire_seq1)
            .where(*of_epoch(gap, key), gap.c.repaired_ns.is_(None))
            .order_by(gap.c.wire_seq0.desc())
            .limit(MAX_GAPS)
        )
        admission = Admission(self.progress(key).next_wire_seq)
        with self._database.reading() as connection:
            for first, last in connection.execute(open_gaps).all():
                admission.missing.add(first, last)
                stored = sa.select(chunk.c.wire_seq0, chunk.c.wire_seq1).where(*of_epoch(chunk, key))
                for begin, end in connection.execute(stored.where(chunk.c.wire_seq0.between(first, last))):
                    admission.missing.remove(begin, end)
        return admission

    def _known(self, source: str) -> _Source:
        if source not in self._sources:
            self._sources[source] = self._load(source)
            self._sources[source].promised = self._promised.pop(source, 1)
        return self._sources[source]

    def _newest_epochs(self) -> dict[str, int]:
        source, epoch = models.source, models.epoch
        newest = sa.select(source.c.name, sa.func.max(epoch.c.epoch).label("newest")).join_from(
            source, epoch, source.c.source_id == epoch.c.source_id
        )
        with self._database.reading() as connection:
            return {row.name: row.newest for row in connection.execute(newest.group_by(source.c.name))}

    def _load(self, source: str) -> _Source:
        table, epoch = models.source, models.epoch
        with self._database.reading() as connection:
            source_id = connection.execute(sa.select(table.c.source_id).where(table.c.name == source)).scalar()
            if source_id is None:
                stored = connection.execute(sa.select(sa.func.max(table.c.source_id))).scalar() or 0
                numbered = max((known.source_id for known in self._sources.values()), default=0)
                return _Source(max(stored, numbered) + 1)
            epochs = sa.select(epoch.c.incarnation, epoch.c.epoch).where(epoch.c.source_id == source_id)
            return _Source(source_id, {row.incarnation: row.epoch for row in connection.execute(epochs)})


def of_epoch(table: sa.Table, key: EpochKey) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """The condition that a row belongs to the epoch."""
    return table.c.source_id == key.source_id, table.c.epoch == key.epoch
