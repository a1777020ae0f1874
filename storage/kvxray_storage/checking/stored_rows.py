"""Rows as they lie there, one after the other, with texts that need not be text any more, and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage.row_sums import DESCRIPTOR, SUMMED, row_sum, sum_of

_AT_ONCE: Final = 500

Values = dict[str, Any]


def rows_of(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> Iterator[Values]:
    """In the order of the primary key. Damaged text comes as bytes."""
    is_sqlite = connection.dialect.name == "sqlite"
    # SQLite's driver would fail over such text in the middle of its rows; a server has none.
    columns = [
        sa.cast(one, sa.LargeBinary).label(one.name) if is_sqlite and isinstance(one.type, sa.Text) else one
        for one in table.columns
    ]
    texts = {one.name for one in table.columns if is_sqlite and isinstance(one.type, sa.Text)}
    query = sa.select(*columns).where(*conditions).order_by(*table.primary_key.columns)
    with connection.execute(query.execution_options(stream_results=True, yield_per=_AT_ONCE)) as result:
        for row in result.mappings():
            yield {name: _text(value) if name in texts else value for name, value in row.items()}


def _text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data


def sum_fault(table: sa.Table, values: Values) -> str | None:
    """What its sum says of a row: what is wrong, "" for nothing, None where a row has no sum."""
    sums = [("crc", row_sum(table, values))]
    if "descriptor_crc" in values:
        sums.append(("descriptor_crc", sum_of(values[name] for name in DESCRIPTOR)))
    for name, expected in sums:
        if values[name] not in (None, expected):
            what = "its descriptor" if name == "descriptor_crc" else _list(_summed(table))
            return f"{what} is not what was stored"
    return None if any(values[name] is None for name, _ in sums) else ""


def place_of(table: sa.Table, values: Values) -> str:
    """By what names the row among those of its epoch."""
    names = [one.name for one in table.primary_key.columns if one.name not in ("source_id", "epoch")]
    return ", ".join(f"{name} {_shown(values[name])}" for name in names)


def _summed(table: sa.Table) -> list[str]:
    key = {one.name for one in table.primary_key.columns}
    return [name for name in SUMMED[table.name] if name not in key]


def _list(names: list[str]) -> str:
    told = names if len(names) < 12 else [*names[:3], "…", names[-1]]
    return f"one of {', '.join(told)}" if len(told) > 1 else told[0]


def _shown(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
