"""What is usual: a row an event, in a table with no index but its key, 4096 of them in a transaction. The rows are made
beforehand, so that only inserting and committing them is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import sqlalchemy as sa
from kvxray_engine.stream.schema import NO_ORDINAL, Kind
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.event_rows import EventRow
from kvxray_storage.records import EpochKey

PER_TRANSACTION = 4096
Insert = Callable[[sa.Connection, Sequence[Any]], None]

TABLE = sa.Table(
    "bench_event_row",
    sa.MetaData(),
    sa.Column("source_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Integer, nullable=False),
    sa.Column("cause", sa.Integer, nullable=False),
    sa.Column("req", sa.BigInteger),
    sa.Column("block_id", sa.BigInteger),
    sa.Column("value", sa.BigInteger),
    sa.Column("a0", sa.BigInteger, nullable=False),
    sa.Column("a1", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.LargeBinary),
)
NAMES = [column.name for column in TABLE.columns]


class RowInserts:
    """The first events of an epoch as rows; `tuples` and `dicts` insert some of them and return rows a second.

    The table is made anew each time, so that it is as small as it can be.
    """

    def __init__(self, database: Database, of: Database, key: EpochKey, rows: int) -> None:
        self._database = database
        random = Random(0)
        self._rows = [_values(key, row, random) for row in history.events(of, key, 0, rows)]

    def tuples(self) -> float:
        """Through the driver: what SQLAlchemy hands on as it is."""
        mark = "?" if self._database.url_scheme == "sqlite" else "%s"
        statement = f"INSERT INTO {TABLE.name} ({', '.join(NAMES)}) VALUES ({', '.join([mark] * len(NAMES))})"
        return self._rate(self._rows, lambda connection, rows: _run(connection.exec_driver_sql, statement, rows))

    def dicts(self) -> float:
        """Through SQLAlchemy Core, half as many."""
        rows = [dict(zip(NAMES, row, strict=True)) for row in self._rows[: max(1, len(self._rows) // 2)]]
        return self._rate(rows, lambda connection, rows: _run(connection.execute, sa.insert(TABLE), rows))

    def drop(self) -> None:
        with self._database.writing() as connection:
            TABLE.drop(connection, checkfirst=True)

    def _rate(self, rows: Sequence[Any], insert: Insert) -> float:
        self.drop()
        with self._database.writing() as connection:
            TABLE.create(connection)
        begun = time.perf_counter()
        for at in range(0, len(rows), PER_TRANSACTION):
            with self._database.writing() as connection:
                insert(connection, rows[at : at + PER_TRANSACTION])
        return len(rows) / (time.perf_counter() - begun)


def _run(execute: Callable[..., object], statement: object, rows: Sequence[Any]) -> None:
    execute(statement, rows)


def _values(key: EpochKey, row: EventRow, random: Random) -> tuple[Any, ...]:
    return (
        key.source_id, key.epoch, row.seq, row.t_ns, row.step, int(row.kind), int(row.cause),
        None if row.req == NO_ORDINAL else row.req, row.block_id, row.value, row.a0, row.a1,
        random.randbytes(32) if row.kind == Kind.BlockCached else None,
    )  # fmt: skip
