"""Reads: any window of events, the newest ones, a block's own, at a cost that does not grow with what is stored."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.schema import Kind
from kvxray_storage import history
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from tests.storage.told_messages import T0_NS, Teller, Told, descriptor, expand, streams

WAIT_S = 60.0
STEPS = 60


def store(database, messages, incarnation="life-1", **log_options):
    with EventLog(database, **log_options) as log:
        key = log.open_epoch("engine", {}, incarnation, descriptor(), T0_NS)
        for message in messages:
            assert log.append(key, message)
        assert log.flush(WAIT_S)
        log.check_integrity()
    return key


@pytest.fixture(scope="module")
def stored(make_database_url):
    """60 steps with a hole after the 20th, in chunks of 50 events; with what a plain expansion has of them."""
    database = open_database(make_database_url())
    teller, messages = Teller(), []
    for step in range(STEPS):
        if step == 20:
            teller.lose(messages=2, events=17)
        messages.append(teller.tell_step(step, block=step % 7 + 1))
    key = store(database, messages, chunk_events=50)
    yield database, key, expand(messages, teller.names)
    database.close()


@given(first=st.integers(0, 5 * STEPS + 30), limit=st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_events_resume_anywhere(stored, first, limit):
    database, key, rows = stored
    assert history.events(database, key, first, limit) == [row for row in rows if row.seq >= first][:limit]


@given(limit=st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_the_tail_is_the_last_events_in_order(stored, limit):
    database, key, rows = stored
    assert history.tail(database, key, limit) == rows[-limit:]


@given(block=st.integers(0, 9), limit=st.integers(1, 60))
@settings(max_examples=30, deadline=None)
def test_the_history_of_a_block_is_its_events_newest_first(stored, block, limit):
    database, key, rows = stored
    assert (
        history.block_history(database, key, block, limit)
        == [row for row in reversed(rows) if row.block_id == block][:limit]
    )


@given(stream=streams())
@settings(max_examples=15, deadline=None)
def test_any_kinds_go_through_the_database_unchanged(stored, stream):
    database, messages, names = stored[0], *stream
    key = store(database, messages, incarnation=f"any-{uuid.uuid4()}", chunk_events=16)
    assert history.events(database, key, 0, 100_000) == expand(messages, names)
    database.check_integrity()


def test_a_copy_is_in_the_history_of_both_its_blocks(database):
    teller = Teller()
    copy = Told(Kind.BlockCopied, blocks=(5, 6), values=(7, 8))
    key = store(database, [teller.tell([Told(Kind.StepStarted), copy])])
    for block in (6, 8):
        [row] = history.block_history(database, key, block, 10)
        assert (row.block_id, row.value) == (6, 8)


def test_reading_costs_what_is_returned_and_not_what_is_stored(stored, monkeypatch):
    database, key, rows = stored
    decoded = []
    original = history.decode_chunk
    monkeypatch.setattr(history, "decode_chunk", lambda data: decoded.append(1) or original(data))
    assert len(history.tail(database, key, 20)) == 20
    assert len(decoded) == 1
    decoded.clear()
    assert len(history.events(database, key, rows[100].seq, 20)) == 20
    assert len(decoded) <= 2
    decoded.clear()
    assert len(history.block_history(database, key, 99, 10)) == 0
    assert decoded == []


def test_chunks_are_found_by_an_index(stored):
    database, key, _ = stored
    queries = [
        "SELECT data FROM chunk WHERE source_id = 1 AND epoch = 1 AND seq1 >= 7 ORDER BY seq1",
        "SELECT data FROM chunk WHERE source_id = 1 AND epoch = 1 ORDER BY seq1 DESC",
    ]
    with database.reading() as connection:
        for query in queries:
            assert "ix_chunk_source_id_epoch_seq1" in plan(connection, query)


def plan(connection, query):
    """How the database answers, in one line. So few rows PostgreSQL would rather sort, unless it is told not to."""
    if connection.dialect.name == "sqlite":
        [step] = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all()
        return step.detail if "USING INDEX" in step.detail else "no index"
    for way in ("seqscan", "bitmapscan", "sort"):
        connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
    [step, *_] = connection.exec_driver_sql(f"EXPLAIN {query}").scalars()
    return step if "Index Scan" in step else "no index"


def test_nothing_stored_is_an_empty_answer(database):
    key = EpochKey(1, 1)
    assert history.sources(database) == []
    assert history.epochs(database, "engine") == []
    assert history.events(database, key, 0, 10) == []
    assert history.tail(database, key, 10) == []
    assert history.block_history(database, key, 1, 10) == []
    assert history.gaps(database, key, 10) == []
    assert history.findings(database, None) == []


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        ("UPDATE source SET labels = '{'", history.sources),
        ("UPDATE source SET labels = '[1]'", history.sources),
        ("UPDATE epoch SET descriptor = '{}'", lambda database: history.epochs(database, "engine")),
        ("UPDATE finding SET numbers = '[1'", lambda database: history.findings(database, None)),
    ],
)
def test_damaged_text_is_told_in_one_sentence(database, make_finding, damage, read):
    store(database, [Teller().tell_step(0)])
    with EventLog(database) as log:
        log.finding(make_finding())
        assert log.flush(WAIT_S)
    assert read(database)
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    with pytest.raises(DamagedChunk, match="cannot be read"):
        read(database)


def test_epochs_tell_what_is_stored_of_them(database):
    teller = Teller()
    messages = [teller.tell_step(step) for step in range(3)]
    key = store(database, messages)
    [epoch] = history.epochs(database, "engine")
    assert epoch.key == key
    assert epoch.descriptor == descriptor()
    assert (epoch.first_seq, epoch.last_seq, epoch.num_events) == (0, 14, 15)
    took_ns = 100_000  # the step that the last message completed
    assert epoch.last_ns == messages[-1].header.t0_wall_ns + took_ns
