"""What a database holds, source by source and epoch by epoch: for people who wonder where their disk went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.records import EpochKey
from kvxray_storage.storage_size import measure


@dataclass(frozen=True, slots=True)
class EpochStats:
    """What is stored of an epoch; first and last: of its stored events (times are wall ns), None where none is.
    is_unfinished: of an import that did not come to its end.
    """

    source: str
    epoch: int
    started_ns: int
    ended_ns: int | None
    first_seq: int | None
    last_seq: int | None
    first_ns: int | None
    last_ns: int | None
    events: int
    chunks: int
    chunk_bytes: int
    keyframes: int
    keyframe_bytes: int
    gaps: int
    rollup_seconds: int
    rollup_minutes: int
    names: int
    pruned_events: int
    is_unfinished: bool

    @property
    def bytes_per_event(self) -> float | None:
        return (self.chunk_bytes + self.keyframe_bytes) / self.events if self.events else None


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    place: str
    used_bytes: int
    on_disk_bytes: int
    findings: int
    bookmarks: int
    epochs: list[EpochStats]


_CHUNK: Final = models.chunk
_FRAME: Final = models.keyframe


def stats(database: Database, source: str | None = None) -> DatabaseStats:
    """Of one source, or of all. Goes through everything but the data."""
    size = measure(database)
    with database.reading() as connection:
        columns: dict[str, dict[EpochKey, Any]] = {
            "chunk": _grouped(
                connection, _CHUNK,
                sa.func.count(), sa.func.sum(_CHUNK.c.num_events), sa.func.sum(_CHUNK.c.num_bytes),
                sa.func.min(_CHUNK.c.seq0), sa.func.max(_CHUNK.c.seq1),
                sa.func.min(_CHUNK.c.t0_ns), sa.func.max(_CHUNK.c.t1_ns),
            ),
            "keyframe": _grouped(connection, _FRAME, sa.func.count(), sa.func.sum(_FRAME.c.num_bytes)),
            "gap": _grouped(connection, models.gap, sa.func.count()),
            "name": _grouped(connection, models.name, sa.func.count()),
            "second": _grouped(connection, TABLES[1], sa.func.count()),
            "minute": _grouped(connection, TABLES[60], sa.func.count()),
        }  # fmt: skip
        table, epoch = models.source, models.epoch
        query = sa.select(table.c.name, epoch).join_from(table, epoch).order_by(epoch.c.source_id, epoch.c.epoch)
        rows = connection.execute(query if source is None else query.where(table.c.name == source)).all()
        findings, bookmarks = (_count(connection, one, source) for one in (models.finding, models.bookmark))
    epochs = [_epoch(row, columns) for row in rows]
    return DatabaseStats(database.place, size.used, size.on_disk, findings, bookmarks, epochs)


def _grouped(connection: sa.Connection, table: sa.Table, *sums: sa.ColumnElement[Any]) -> dict[EpochKey, Any]:
    query = sa.select(table.c.source_id, table.c.epoch, *sums).group_by(table.c.source_id, table.c.epoch)
    return {EpochKey(row[0], row[1]): [_whole(one) for one in row[2:]] for row in connection.execute(query)}


def _whole(value: Any) -> int | None:
    """A server's sums are decimals."""
    return None if value is None else int(value)


def _count(connection: sa.Connection, table: sa.Table, source: str | None) -> int:
    query = sa.select(sa.func.count()).select_from(table)
    return int(connection.execute(query if source is None else query.where(table.c.source == source)).scalar_one())


def _epoch(row: Any, columns: dict[str, dict[EpochKey, Any]]) -> EpochStats:
    key = EpochKey(row.source_id, row.epoch)
    chunks, events, chunk_bytes, first, last, first_ns, last_ns = columns["chunk"].get(key, [0, 0, 0] + [None] * 4)
    frames, frame_bytes = columns["keyframe"].get(key, [0, 0])
    [gaps], [names], [seconds], [minutes] = (
        columns[name].get(key, [0]) for name in ("gap", "name", "second", "minute")
    )
    return EpochStats(
        source=row.name, epoch=row.epoch, started_ns=row.started_ns, ended_ns=row.ended_ns,
        first_seq=first, last_seq=last, first_ns=first_ns, last_ns=last_ns,
        events=events or 0, chunks=chunks, chunk_bytes=chunk_bytes or 0,
        keyframes=frames, keyframe_bytes=frame_bytes or 0,
        gaps=gaps, rollup_seconds=seconds, rollup_minutes=minutes, names=names, pruned_events=row.pruned_events,
        is_unfinished=row.importing_ns is not None,
    )  # fmt: skip
