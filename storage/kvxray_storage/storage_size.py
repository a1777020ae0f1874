"""How much of its limit a database uses. SQLite: the pages of its file that are in use, for those that are not are used
again before the file grows. PostgreSQL: what chunks and keyframes hold, and the other tables and all indexes as the
server measures them; its files give back their room only slowly, but use it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database

LARGE: Final = (models.chunk, models.keyframe)


@dataclass(frozen=True, slots=True)
class Size:
    """`used`: what the limit is about. `on_disk`: SQLite's file, or the tables as the server has them."""

    used: int
    on_disk: int


def measure(database: Database) -> Size:
    with database.reading() as connection:
        return of_file(connection) if database.url_scheme == "sqlite" else _of_server(connection)


def bytes_by_source(database: Database) -> dict[int, int]:
    """Of chunks and keyframes. Goes through all of them."""
    found: dict[int, int] = {}
    with database.reading() as connection:
        for table in LARGE:
            query = sa.select(table.c.source_id, sa.func.sum(table.c.num_bytes)).group_by(table.c.source_id)
            for source_id, num_bytes in connection.execute(query):
                found[source_id] = found.get(source_id, 0) + int(num_bytes)
    return found


def of_file(connection: sa.Connection) -> Size:
    """SQLite's, with what the connection's own transaction changed."""
    pages, unused, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Size((pages - unused) * size, pages * size)


def _of_server(connection: sa.Connection) -> Size:
    tables = models.metadata.sorted_tables
    names = [sa.cast(sa.literal(table.name), sa.dialects.postgresql.REGCLASS) for table in tables]
    totals = connection.execute(sa.select(*(sa.func.pg_total_relation_size(name) for name in names))).one()
    large = [sa.cast(sa.literal(table.name), sa.dialects.postgresql.REGCLASS) for table in LARGE]
    indexes = connection.execute(sa.select(*(sa.func.pg_indexes_size(name) for name in large))).one()
    others = sum(total for total, table in zip(totals, tables, strict=True) if table not in LARGE)
    held = sum(_num_bytes(connection, table) for table in LARGE)
    return Size(int(others) + sum(indexes) + held, int(sum(totals)))


def _num_bytes(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.sum(table.c.num_bytes))).scalar() or 0)
