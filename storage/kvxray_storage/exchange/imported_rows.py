"""Findings and bookmarks of a file as rows of this database. Their ids are good for one database only: where they come
under another name, or something else has the id, they get one that follows from where they are, so that the same file
gives the same ids again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.exchange.records import Bookmarks, Findings, StoredBookmark, StoredFinding
from kvxray_storage.row_sums import summed
from kvxray_storage.upserts import Row, insert_new

_AT_ONCE: Final = 500
_NAMESPACE: Final = uuid.UUID("6b767872-6179-4d6b-a78b-6b7678726179")


def add_rows(connection: sa.Connection, item: Findings | Bookmarks, rename: Callable[[str], str]) -> list[str]:
    """Returns the ids of those that were not there yet."""
    table = models.finding if isinstance(item, Findings) else models.bookmark
    rows = [_row(stored, rename(stored.source)) for stored in item.rows]
    there = _places(connection, table, rows)
    rows = _told_apart(rows, there)
    there = _places(connection, table, rows)
    insert_new(connection, table, [summed(table, row) for row in rows])
    return [row["id"] for row in rows if row["id"] not in there]


def remove_rows(connection: sa.Connection, ids: Sequence[str]) -> None:
    for table in (models.finding, models.bookmark):
        for at in range(0, len(ids), _AT_ONCE):
            connection.execute(sa.delete(table).where(table.c.id.in_(ids[at : at + _AT_ONCE])))


def _row(stored: StoredFinding | StoredBookmark, name: str) -> Row:
    values: dict[str, Any] = msgspec.structs.asdict(stored)
    if name == stored.source:
        return values
    renamed = {**values, "source": name}
    # The id of a finding tells its source; so does that of a copy.
    told, own = f"{values.get('kind')}:{stored.source}:", f"{values.get('kind')}:{name}:"
    is_told = isinstance(stored, StoredFinding) and stored.id.startswith(told)
    return {**renamed, "id": own + stored.id[len(told) :] if is_told else _other_id(renamed)}


def _other_id(row: Row) -> str:
    return uuid.uuid5(_NAMESPACE, "\0".join((row["source"], str(row["epoch"]), row["id"]))).hex


def _told_apart(rows: Sequence[Row], there: dict[str, tuple[str, int]]) -> list[Row]:
    """With other ids where something of another place has theirs."""
    taken, found = dict(there), []
    for row in rows:
        place = (row["source"], row["epoch"])
        one = row if taken.setdefault(row["id"], place) == place else {**row, "id": _other_id(row)}
        found.append(one)
    return found


def _places(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> dict[str, tuple[str, int]]:
    """Source and epoch of what has these ids already."""
    ids = [row["id"] for row in rows]
    found: dict[str, tuple[str, int]] = {}
    for at in range(0, len(ids), _AT_ONCE):
        query = sa.select(table.c.id, table.c.source, table.c.epoch).where(table.c.id.in_(ids[at : at + _AT_ONCE]))
        found |= {row.id: (row.source, row.epoch) for row in connection.execute(query)}
    return found
