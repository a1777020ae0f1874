"""Inserts that may be repeated, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Row = dict[str, Any]


def insert_into(dialect: str, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def insert_new(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Stores the rows whose keys are not there yet."""
    if rows:
        connection.execute(insert_into(connection.dialect.name, table).on_conflict_do_nothing(), rows)


def insert_new_tuples(
    connection: sa.Connection, table: sa.Table, names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """The same for thousands of narrow rows, `names` being their columns: straight to the driver, since preparing each
    row costs more than storing it. Numbers and text only: other types would have to be prepared.
    """
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        columns = tuple(_array(column) for column in zip(*rows, strict=True))
        connection.exec_driver_sql(_insert_new_columns(connection.dialect, table, names), columns)
    else:
        connection.exec_driver_sql(_insert_new(connection.dialect, table, names), list(rows))


@lru_cache(maxsize=64)
def _insert_new(dialect: sa.Dialect, table: sa.Table, names: tuple[str, ...]) -> str:
    insert = insert_into(dialect.name, table).on_conflict_do_nothing()
    compiled = insert.compile(dialect=dialect, column_keys=list(names))
    assert tuple(compiled.positiontup or ()) == names, "columns in the order of the table"
    return str(compiled)


@lru_cache(maxsize=64)
def _insert_new_columns(dialect: sa.Dialect, table: sa.Table, names: tuple[str, ...]) -> str:
    """One statement takes all rows, as an array a column: a server answers every statement by itself."""
    arrays = ", ".join(f"%s::{table.c[name].type.compile(dialect)}[]" for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"


def _array(values: Sequence[int | str]) -> str:
    """As PostgreSQL writes one; the driver does it an item at a time, which takes as long as the rest of the commit."""
    return "{" + ",".join(_quoted(value) if isinstance(value, str) else str(value) for value in values) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def upsert(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Row], key: list[str], changed: list[str] | None = None
) -> None:
    """Stores the rows; where the key is there, only the columns `changed` (None: all others) become the new ones."""
    if rows:
        names = [name for name in rows[0] if name not in key] if changed is None else changed
        connection.execute(upsert_into(connection.dialect.name, table, key, names), rows)


def upsert_into(dialect: str, table: sa.Table, key: Sequence[str], changed: Sequence[str]) -> sa.Insert:
    """The statement of `upsert`."""
    insert = insert_into(dialect, table)
    return insert.on_conflict_do_update(index_elements=key, set_={name: insert.excluded[name] for name in changed})
