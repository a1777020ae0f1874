"""For every column of every table it is decided whether a changed value is found, and where it is decided so, it is."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import sqlalchemy as sa
from kvxray_storage import epoch_fold, models, pruning
from kvxray_storage.attached_engines import AttachedEngine, keep_attached
from kvxray_storage.bookmarks import add_bookmark
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import FindingRow
from kvxray_storage.rollup_columns import VALUE_COLUMNS
from kvxray_storage.row_sums import SUMMED, summed
from kvxray_storage.signal_minutes import SignalMinute, store_minutes
from kvxray_storage.verify import verify

from tests.storage.test_retention import life
from tests.storage.told_messages import T0_NS

TABLES = models.metadata.tables
REFERENCE = "a reference to another row, which the database itself holds to what is there"
ONLY_SHOWN = "shown to people and nothing else; checked for sense"
NOT_FOUND = {
    "source.source_id": REFERENCE,
    "source.created_ns": ONLY_SHOWN,
    "epoch.ended_ns": ONLY_SHOWN,
    "gap.repaired_ns": "written when the gap has been stored long since; checked for sense",
    **{f"{table}.{column}": REFERENCE for table, found in TABLES.items() for column in ("source_id", "epoch")
       if column in found.columns and found.foreign_keys},
}  # fmt: skip
"""By column: why a changed value need not be found."""


def columns_to_change():
    """Of the wide rollups, whose columns are alike, one of each kind."""
    some = ("events", "step_us_max", "ttft_histogram", "usable_blocks", "used_max", "t_s", "crc")
    for table in TABLES.values():
        for column in table.columns:
            if not table.name.startswith("rollup") or column.name in some:
                yield f"{table.name}.{column.name}"


@pytest.fixture(scope="module")
def filled(make_database_url, tmp_path_factory):
    """A row in every table, written by what writes such rows."""
    patch = pytest.MonkeyPatch()
    patch.setattr(epoch_fold, "KEYFRAME_ROWS", 500)
    database = open_database(make_database_url())
    made = life(steps=20)
    with EventLog(database, chunk_events=150) as log:
        made.store(log)
        log.errand(lambda connection: pruning.keep_limits(connection, 1, {"max_age_s": 60, "changed_ns": T0_NS}))
        assert log.finding(finding_of())
    add_bookmark(database, "engine", 1, 5, T0_NS, "here it began", T0_NS)
    with database.writing() as connection:
        store_minutes(connection, [SignalMinute("engine", T0_NS // 10**9 // 60 * 60, b"\x90")])
    keep_attached(database, AttachedEngine("east", '{"name": "east"}', T0_NS))
    with database.writing() as connection:
        for table, row in ROWS_OF_ALERTS.items():
            connection.execute(sa.insert(table), [summed(table, row)])
    patch.undo()
    yield database
    database.close()


ROWS_OF_ALERTS = {
    models.alert: {
        "id": "alert-1", "rule": "LeakNamed", "engine": "engine", "severity": "warning", "state": "over",
        "began_ns": T0_NS, "fired_ns": T0_NS, "ended_ns": T0_NS + 5, "evidence": "{}",
    },
    models.notification: {
        "id": "told-1", "target": "pager", "alert_id": "alert-1", "kind": "fired", "created_ns": T0_NS,
        "due_ns": T0_NS, "attempts": 1, "delivered_ns": T0_NS + 5, "error": "it was away", "delivery": "post-1",
    },
    models.mute: {
        "id": "mute-1", "rule": "LeakNamed", "engine": "engine", "until_ns": T0_NS + 5, "note": "known",
        "created_ns": T0_NS,
    },
    models.alert_rule: {"name": "LeakNamed", "is_on": False, "text": "rules: []", "changed_ns": T0_NS},
}  # fmt: skip


def finding_of():
    return FindingRow(
        "leak-1", "leak", "warning", "engine", 1, 10, 20, T0_NS, "ended", T0_NS + 5, {"requests": ["request-1"]},
        {"blocks": 1}, "exact", "Block 3 was held.",
    )  # fmt: skip


class Cell(NamedTuple):
    """One value, and by what its row is found."""

    column: sa.Column
    key: dict
    value: object

    def write(self, database, value):
        """The key too may be what changes."""
        table = self.column.table
        key = {**self.key, **({self.column.name: self.value} if self.column.primary_key else {})}
        with database.writing() as connection:
            where = [table.c[name] == one for name, one in key.items()]
            assert connection.execute(sa.update(table).where(*where).values({self.column.name: value})).rowcount == 1


def a_cell(database, column):
    """In the middle of the table, of a row that has a value there if any has."""
    table = column.table
    keys = list(table.primary_key.columns) or [table.c.source_id, table.c.epoch]
    with database.reading() as connection:
        rows = connection.execute(sa.select(table).order_by(*keys)).mappings().all()
    told = [row for row in rows if row[column.name] not in (None, b"")] or rows
    assert told, f"{table.name} has no row"
    row = told[len(told) // 2]
    return Cell(column, {one.name: row[one.name] for one in keys}, row[column.name])


def flipped(value, column):
    """One bit of it; of NULL a number. In a key another than the lowest: that one may make it another row's."""
    if value is None:
        return 5
    if isinstance(value, int):
        return value ^ (1 << 12 if column.primary_key else 1)
    at = len(value) // 2
    if isinstance(value, bytes):
        return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]


@pytest.mark.parametrize("name", [one for one in columns_to_change() if one not in NOT_FOUND])
def test_a_changed_value_is_found_and_its_table_named(filled, name):
    table, column = name.split(".")
    cell = a_cell(filled, TABLES[table].c[column])
    cell.write(filled, flipped(cell.value, cell.column))
    try:
        tables = {fault.table for fault in verify(filled).faults}
    finally:
        moved = cell._replace(value=flipped(cell.value, cell.column))
        moved.write(filled, cell.value)
    assert table in tables


def test_what_was_filled_is_whole_and_every_table_was_looked_at(filled):
    verdict = verify(filled)
    assert (verdict.faults, {what for what, count in verdict.not_checked.items() if count}) == ([], set())
    assert {*verdict.checked} == {*TABLES, "event"}


def test_no_column_is_forgotten():
    """A new one is found by the test above, or stands among those that need not be."""
    assert NOT_FOUND.keys() <= {f"{table.name}.{column.name}" for table in TABLES.values() for column in table.columns}
    for table in ("rollup_1s", "rollup_1m"):
        assert {*SUMMED[table]} == {*VALUE_COLUMNS, "source_id", "epoch", "t_s"}
        assert {*TABLES[table].columns.keys()} == {*SUMMED[table], "crc"}
