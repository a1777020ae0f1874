"""A log that was really written goes down and up again, revision by revision, and goes on afterwards."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.snapshot import dump
from kvxray_storage import history, schema
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.storage.crash_writer import EVENTS, message
from tests.storage.told_messages import T0_NS, descriptor, expand

WAIT_S = 60.0
MESSAGES = 40
# From the newest down to the first one.
REVISIONS = [script.revision for script in ScriptDirectory.from_config(schema.config()).walk_revisions()]


@pytest.fixture
def filled(database, make_finding):
    """A keyframe, chunks, names, a gap, a finding; with the key of the epoch."""
    with EventLog(database, chunk_events=25) as log:
        key = log.open_epoch("engine", {"model": "told"}, "life-1", descriptor(), T0_NS)
        assert log.keyframe(key, 0, 0, T0_NS, dump(BlockMap(descriptor())))
        for wire_seq in range(MESSAGES):
            assert log.append(key, message(wire_seq))
        assert log.gap(key, MESSAGES, MESSAGES + 1, EVENTS * MESSAGES, EVENTS * (MESSAGES + 2) - 1, T0_NS, "lost")
        assert log.finding(make_finding())
        assert log.flush(WAIT_S)
    return database, key


def contents(database):
    """Every row of every table as it lies there, by column."""
    found = {}
    with database.reading() as connection:
        for name in sa.inspect(connection).get_table_names():
            if name != "alembic_version":
                table = sa.Table(name, sa.MetaData(), autoload_with=connection)
                rows = connection.execute(sa.select(table)).mappings().all()
                columns = [column.name for column in table.c]
                found[name] = {column: sorted(repr(row[column]) for row in rows) for column in columns}
    return found


# Since 0006 names say less, and older ones say all of it without a sum; filters of hashes that an older one cannot
# check go: tests/storage/test_migrations.py.
SAID_OTHERWISE = {("name", "detail"), ("name", "crc"), ("chunk", "hash_bits"), ("chunk", "num_bytes")}


def common(contents, tables):
    """What `tables` have of it."""
    return {name: {column: contents[name][column] for column in columns
                   if column in contents[name] and (name, column) not in SAID_OTHERWISE}
            for name, columns in tables.items() if name in contents}  # fmt: skip


def move(database, step, *arguments):
    with database.writing() as connection:
        step(connection, *arguments)
    database.engine.dispose()
    database.check_integrity()


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_what_an_older_schema_knows_is_kept_on_the_way_down_and_up(filled, revision):
    database, key = filled
    before = contents(database)
    move(database, schema.downgrade, revision)
    down = contents(database)
    assert down["chunk"]["data"] == before["chunk"]["data"]
    assert common(down, before) == common(before, down)
    move(database, schema.upgrade)
    up = contents(database)
    assert {name: columns.keys() for name, columns in up.items()} == {
        name: columns.keys() for name, columns in before.items()
    }
    assert common(up, down) == common(before, down)
    assert history.events(database, key, 0, 1000) == expand(
        [message(wire_seq) for wire_seq in range(MESSAGES)], {n: f"request-{n}" for n in range(MESSAGES)}
    )
    assert len(history.gaps(database, key, 10)) == len(history.findings(database, None)) == 1


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_a_log_goes_on_in_a_database_that_an_older_kvxray_left(filled, database_url, revision):
    database, key = filled
    move(database, schema.downgrade, revision)
    reopened = open_database(database_url)
    assert reopened.schema_revision == schema.head()
    with EventLog(reopened) as log:
        assert log.open_epoch("engine", {}, "life-1", descriptor(), T0_NS) == key
        assert log.cursor(key).next_wire_seq == MESSAGES + 2
        assert log.append(key, message(MESSAGES + 2))
        assert log.flush(WAIT_S)
    assert len(history.events(reopened, key, 0, 1000)) == EVENTS * (MESSAGES + 1)
    reopened.check_integrity()
    reopened.close()


def test_below_the_first_revision_nothing_is_left(filled):
    database, _ = filled
    move(database, schema.downgrade, "base")
    assert contents(database) == {}
    move(database, schema.upgrade)
    assert set(contents(database)) >= {"chunk", "keyframe", "epoch", "source"}
