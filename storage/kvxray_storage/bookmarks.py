"""Moments that somebody marked, with a note: kept in the database, so that colleagues see them."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, fields

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Event `seq` of an epoch of a source, which happened at `at_ns`; both times are wall ns."""

    id: str
    source: str
    epoch: int
    seq: int
    at_ns: int
    note: str
    created_ns: int


def add_bookmark(
    database: Database, source: str, epoch: int, seq: int, at_ns: int, note: str, created_ns: int
) -> Bookmark:
    """Durable when this returns."""
    bookmark = Bookmark(uuid.uuid4().hex, source, epoch, seq, at_ns, note.replace("\0", "\ufffd"), created_ns)
    with database.writing() as connection:
        connection.execute(sa.insert(models.bookmark), [summed(models.bookmark, asdict(bookmark))])
    return bookmark


def remove_bookmark(database: Database, bookmark_id: str) -> bool:
    """False when there is none of that id."""
    table = models.bookmark
    with database.writing() as connection:
        return connection.execute(sa.delete(table).where(table.c.id == bookmark_id)).rowcount > 0


def bookmarks(database: Database, source: str, limit: int) -> list[Bookmark]:
    """The newest moments first."""
    table = models.bookmark
    columns = (table.c[one.name] for one in fields(Bookmark))
    query = sa.select(*columns).where(table.c.source == source).order_by(table.c.at_ns.desc(), table.c.id).limit(limit)
    with database.reading() as connection:
        return [Bookmark(**row._mapping) for row in connection.execute(query)]


def count_bookmarks(database: Database, source: str) -> int:
    table = models.bookmark
    with database.reading() as connection:
        return int(
            connection.execute(
                sa.select(sa.func.count()).select_from(table).where(table.c.source == source)
            ).scalar_one()
        )
