"""Whoever asks whether the event log is whole is told: nothing while it is, and which part when a byte was changed."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from kvxray_storage import epoch_fold, models
from kvxray_storage.event_log import EventLog
from kvxray_storage.rebuild import rebuild
from kvxray_storage.storage_stats import stats
from kvxray_storage.verify import verify

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory


@pytest.fixture
def stored(database, monkeypatch):
    """(key, what was told): with a gap, snapshots, another pool, and periodic keyframes."""
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 500)
    made = MadeUpHistory(ModelEngine(96, rows=48, seed=3, seldom=1.2))
    made.snapshot()
    made.steps(40)
    made.steps(1, lost=True)
    made.steps(20)
    made.snapshot()
    made.change_blocks(128)
    made.steps(30)
    with EventLog(database, chunk_events=150) as log:
        return made.store(log), made


def frames(database):
    frame = models.keyframe
    with database.reading() as connection:
        return connection.execute(sa.select(frame.c.seq, frame.c.origin, frame.c.state).order_by(frame.c.seq)).all()


def flip(database, table, column, where, at=None):
    """One bit of one byte of a stored value."""
    with database.writing() as connection:
        data = bytearray(connection.execute(sa.select(column).where(where)).scalar_one())
        at = len(data) // 2 if at is None else at % len(data)
        data[at] ^= 1
        connection.execute(sa.update(table).where(where).values({column.name: bytes(data)}))


def test_what_was_stored_is_whole(database, stored):
    verdict = verify(database)
    assert verdict.faults == []
    [epoch] = stats(database).epochs
    assert (verdict.checked["chunk"], verdict.checked["event"], verdict.checked["keyframe"]) == (
        epoch.chunks,
        epoch.events,
        epoch.keyframes,
    )
    assert {frame.origin for frame in frames(database)} == {"periodic", "snapshot"}
    rebuild(database, stored[0])
    assert verify(database).faults == []
    assert verify(database, "engine").checked["chunk"] == epoch.chunks
    assert not verify(database, "nobody").checked


def test_any_flipped_byte_of_a_chunk_is_found_and_the_chunk_named(database, stored):
    chunk = models.chunk
    with database.reading() as connection:
        rows = connection.execute(sa.select(chunk.c.wire_seq0, chunk.c.seq0, chunk.c.seq1).order_by(chunk.c.seq1)).all()
    choose = random.Random(1)
    for name in ("data", "data", "data", "counts", "bits"):
        row = choose.choice([row for row in rows if row.seq1 >= row.seq0])
        where, at = chunk.c.wire_seq0 == row.wire_seq0, choose.randrange(10**6)
        flip(database, chunk, chunk.c[name], where, at)
        problems = [str(one) for one in verify(database).faults]
        assert len(problems) == 1, problems
        [problem] = problems
        assert problem.startswith("chunk: epoch 1 of engine, messages ")
        assert f"events {row.seq0} to {row.seq1}" in problem
        flip(database, chunk, chunk.c[name], where, at)
    assert verify(database).faults == []


def test_any_flipped_byte_of_a_keyframe_is_found_and_the_keyframe_named(database, stored):
    frame, choose = models.keyframe, random.Random(2)
    for one in frames(database):
        at = choose.randrange(10**6)
        flip(database, frame, frame.c.state, frame.c.seq == one.seq, at)
        [problem] = map(str, verify(database).faults)
        assert problem.startswith(f"keyframe: epoch 1 of engine, before event {one.seq}: it is damaged")
        flip(database, frame, frame.c.state, frame.c.seq == one.seq, at)


def test_a_keyframe_that_tells_another_moment_is_found(database, stored):
    """Its bytes are well: it is the events that say otherwise."""
    first, second = [one for one in frames(database) if one.origin == "periodic"][:2]
    frame = models.keyframe
    with database.writing() as connection:
        same = {"state": first.state, "num_bytes": len(first.state)}
        connection.execute(sa.update(frame).where(frame.c.seq == second.seq).values(**same))
    problems = [str(one) for one in verify(database).faults]
    assert any(f"before event {second.seq}: it is not what the events before it make" in one for one in problems)


def test_what_is_missing_or_miscounted_is_found(database, stored):
    chunk, epoch = models.chunk, models.epoch
    with database.writing() as connection:
        gone = connection.execute(sa.select(chunk.c.wire_seq0).where(chunk.c.num_events > 0).limit(1)).scalar_one()
        connection.execute(sa.delete(chunk).where(chunk.c.wire_seq0 == gone))
    assert any("it counts" in problem and "chunks with" in problem for problem in map(str, verify(database).faults))
    with database.writing() as connection:
        connection.execute(sa.update(chunk).values(t0_ns=chunk.c.t0_ns + 1))
        connection.execute(sa.update(epoch).values(num_events=7))
    assert any("the begin is not what its events say" in problem for problem in map(str, verify(database).faults))
