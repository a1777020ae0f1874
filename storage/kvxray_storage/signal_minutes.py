"""What the metrics of engines told, a row an engine and minute: written between commits, read as stretches of time.

What a row says is the backend's to know; here it is bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed
from kvxray_storage.upserts import insert_new

MINUTE_S: Final = 60
ROWS_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class SignalMinute:
    """`source`: the name of the engine. `t_s`: the first second of the minute, of wall time."""

    source: str
    t_s: int
    packed: bytes


def store_minutes(connection: sa.Connection, minutes: Sequence[SignalMinute]) -> None:
    """Those that are not there yet. Repeatable; a transaction of the writer's."""
    table = models.signal_minute
    rows = [{"source": one.source, "t_s": one.t_s, "packed": one.packed} for one in minutes]
    insert_new(connection, table, [summed(table, row) for row in rows])


def read_minutes(database: Database, source: str, from_s: int, to_s: int, limit: int) -> list[SignalMinute]:
    """Those that begin from `from_s` on and before `to_s`, in order; at most the first `limit`."""
    table = models.signal_minute
    here = (table.c.source == source, table.c.t_s >= from_s, table.c.t_s < to_s)
    query = sa.select(table.c.t_s, table.c.packed).where(*here).order_by(table.c.t_s).limit(limit)
    with database.reading() as connection:
        return [SignalMinute(source, row.t_s, row.packed) for row in connection.execute(query)]


def newest_minute(database: Database, source: str, before_s: int | None = None) -> int | None:
    """When the last of them begins, of those before `before_s`; None: there is none."""
    table = models.signal_minute
    query = sa.select(sa.func.max(table.c.t_s)).where(table.c.source == source)
    if before_s is not None:
        query = query.where(table.c.t_s < before_s)
    with database.reading() as connection:
        newest: int | None = connection.execute(query).scalar()
    return newest


def sources_with_minutes(database: Database) -> list[str]:
    """Names of engines, in their order."""
    table = models.signal_minute
    with database.reading() as connection:
        return list(connection.execute(sa.select(table.c.source).distinct().order_by(table.c.source)).scalars())


def delete_minutes(connection: sa.Connection, before_s: int) -> int:
    """The oldest few of every engine that begin before; how many. A short transaction of the writer's."""
    table = models.signal_minute
    query = sa.select(table.c.source, table.c.t_s).where(table.c.t_s < before_s)
    rows = connection.execute(query.order_by(table.c.t_s).limit(ROWS_AT_ONCE)).all()
    by_source: dict[str, int] = {}
    for row in rows:
        by_source[row.source] = max(by_source.get(row.source, row.t_s), row.t_s)
    for source, last in by_source.items():
        connection.execute(sa.delete(table).where(table.c.source == source, table.c.t_s <= last))
    return len(rows)


def oldest_quarter(database: Database, least_s: int) -> int | None:
    """The second before which a quarter of the time that is kept lies; None: no more than `least_s` are kept."""
    table = models.signal_minute
    with database.reading() as connection:
        first, last = connection.execute(sa.select(sa.func.min(table.c.t_s), sa.func.max(table.c.t_s))).one()
    if first is None or last - first <= least_s:
        return None
    return int(first + (last - first) // 4)
