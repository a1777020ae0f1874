"""That the writer stays under the database's limit by itself, however late retention comes, and waits for nobody who
cannot help.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_storage import epoch_fold, models, room
from kvxray_storage.event_log import EventLog
from kvxray_storage.retention import Limits, ceiling, full_at, to_free
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.storage_size import measure
from kvxray_storage.time_travel import state_at

from benchmarks.measuring.model_engine import ModelEngine

WAIT_S = 120.0
FAR = 150_000
"""Events: several times what fits under the limit."""


class HeldKeeper(RetentionKeeper):
    """Retention that comes to nothing before it is `released`, or that finds `fault`."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.released = threading.Event()
        self.fault = None

    def _plan(self, growth):
        self.released.wait()
        if self.fault is not None:
            raise self.fault
        return super()._plan(growth)

    def close(self):
        self.released.set()
        super().close()


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 4_000)
    # Nobody's patience ends by the clock here.
    monkeypatch.setattr(room, "PATIENCE_S", 10 * WAIT_S)


@contextmanager
def kept(database, engine, limit):
    """A log with a small queue, and who keeps it within its limit."""
    log = EventLog(database, chunk_events=100, max_queue_bytes=1 << 19)
    keeper = HeldKeeper(database, log, Retention(Limits(max_bytes=limit), {}), engine.clock.wall_ns)
    keeper.start()
    try:
        yield log, keeper
    finally:
        keeper.close()
        log.close(WAIT_S)


def limit_of(database):
    """Room for a few stretches beside what an empty database takes. A server adds to its tables by many pages at once,
    which is no longer little beside so little.
    """
    return measure(database).used * 3 // 2 + (300_000 if database.path is not None else 1_000_000)


class Teller:
    """An engine whose messages go into the log in order. `taken`: events that the log took; `truth`: the state then."""

    def __init__(self, log, engine):
        self.log, self.engine = log, engine
        self.truth = BlockMap(engine.descriptor(), source="engine")
        self.key = log.open_epoch("engine", {}, "life", engine.descriptor(), engine.clock.wall_ns())
        log.keyframe(self.key, 0, 0, engine.clock.wall_ns(), snapshot.dump(self.truth))
        self.taken = 0
        self.refused = None

    def tell(self, events):
        """Until so many more were taken, waiting where the queue is full."""
        until = self.taken + events
        while self.taken < until:
            if not self.offer():
                assert self.log.flush(WAIT_S)

    def tell_until_the_writer_waits(self):
        """And the queue, which is small, is full behind it."""
        queue, changed = self.log._queue, self.log._changed
        while self.taken < FAR:
            with changed:
                waits = self.waits()
            if not self.offer():
                if waits:
                    return
                with changed:
                    assert changed.wait_for(lambda: self.waits() or queue.num_bytes < queue.max_bytes // 2, WAIT_S)

    def offer(self):
        message = self.refused or self.engine.step()
        is_taken = self.log.append(self.key, message)
        self.refused = None if is_taken else message
        if is_taken:
            self.truth.apply(message)
            self.taken += message.header.n
        return is_taken

    def waits(self):
        return self.log.room._asked > self.log.room._answered

    def everything(self, database):
        """Flushes; events that are stored, and those that were and went."""
        assert self.log.flush(WAIT_S)
        epoch, chunk = models.epoch, models.chunk
        with database.reading() as connection:
            left = connection.execute(sa.select(sa.func.sum(chunk.c.num_events))).scalar() or 0
            gone = connection.execute(sa.select(sa.func.sum(epoch.c.pruned_events))).scalar()
        return int(left), int(gone)

    def assert_told_to_the_end(self, database):
        found = state_at(database, self.key, self.truth.next_seq - 1)
        found.check_integrity(with_hashes=False)
        for name in ("ref", "hash_ordinal", "parent_ordinal", "slots", "t_last", "written", "state"):
            assert (getattr(found, name) == getattr(self.truth, name)).all(), name
        assert [one.tolist() for one in found.holds()] == [one.tolist() for one in self.truth.holds()]


def test_the_database_stays_under_its_limit_however_long_retention_is_held_up(database):
    engine, limit = ModelEngine(256, rows=128, seed=3), limit_of(database)
    with kept(database, engine, limit) as (log, keeper):
        teller = Teller(log, engine)
        teller.tell_until_the_writer_waits()
        assert teller.waits()
        assert log.failed is None
        held = measure(database)
        assert full_at(limit) < held.used <= limit
        if database.path is not None:
            assert held.on_disk <= limit
            assert database.path.stat().st_size <= limit
        # Whatever comes now is refused at the queue's door, which is counted and shown.
        refused = log.dropped
        assert not log.append(teller.key, teller.refused)
        assert log.dropped == refused + 1
        keeper.released.set()
        teller.tell(30_000)
        left, gone = teller.everything(database)
        assert gone > 0
        assert left + gone == log.stats().stored_events == teller.taken
        teller.assert_told_to_the_end(database)
        if database.path is not None:
            assert measure(database).on_disk <= limit
    database.check_integrity()


def test_a_limit_that_nothing_can_keep_does_not_stop_the_log(database, monkeypatch, caplog):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 10**9)
    engine, limit = ModelEngine(256, rows=128, seed=3), measure(database).used + 40_000
    with kept(database, engine, limit) as (log, keeper), caplog.at_level(logging.WARNING, "kvxray_storage.room"):
        keeper.released.set()
        teller = Teller(log, engine)
        teller.tell(20_000)
        assert teller.everything(database) == (teller.taken, 0)
        teller.assert_told_to_the_end(database)
    [told] = [record.getMessage() for record in caplog.records]
    assert told == f"the event log grows beyond its limit of {limit} bytes: nothing is left that could go"


@pytest.mark.parametrize("fault", [RuntimeError("a mistake"), sa.exc.OperationalError("SELECT", {}, Exception("gone"))])
def test_retention_that_fails_does_not_stop_the_log(database, fault):
    engine = ModelEngine(256, rows=128, seed=3)
    with kept(database, engine, limit_of(database)) as (log, keeper):
        teller = Teller(log, engine)
        teller.tell_until_the_writer_waits()
        keeper.fault = fault
        keeper.released.set()
        assert teller.everything(database) == (teller.taken, 0)


def test_a_server_that_cannot_be_measured_is_written_to(database, monkeypatch):
    def fail(database):
        raise sa.exc.OperationalError("SELECT", {}, Exception("no such function"))

    engine = ModelEngine(256, rows=128, seed=3)
    limit = limit_of(database)
    monkeypatch.setattr("kvxray_storage.retention_keeper.measure", fail)
    with kept(database, engine, limit) as (log, _):
        teller = Teller(log, engine)
        teller.tell(20_000)
        assert teller.everything(database) == (teller.taken, 0)


def test_retention_that_ends_or_does_not_answer_does_not_stop_the_log(sqlite_database, monkeypatch):
    engine = ModelEngine(256, rows=128, seed=3)
    with kept(sqlite_database, engine, limit_of(sqlite_database)) as (log, _):
        teller = Teller(log, engine)
        teller.tell_until_the_writer_waits()
        assert teller.waits()
        log.room.leave()
        assert teller.everything(sqlite_database) == (teller.taken, 0)
    monkeypatch.setattr(room, "PATIENCE_S", 0.0)
    with kept(sqlite_database, engine, limit_of(sqlite_database)) as (log, keeper):
        teller.log = log
        log.open_epoch("engine", {}, "life", engine.descriptor(), engine.clock.wall_ns())
        teller.tell(20_000)
        assert teller.everything(sqlite_database) == (teller.taken, 0)
        assert not keeper.released.is_set()


def test_a_log_that_closes_stores_what_it_took_also_without_room(sqlite_database):
    engine = ModelEngine(256, rows=128, seed=3)
    with kept(sqlite_database, engine, limit_of(sqlite_database)) as (log, _):
        teller = Teller(log, engine)
        teller.tell_until_the_writer_waits()
        assert teller.waits()
        assert log.close(timeout_s=0)
        assert log.stats().stored_events == teller.taken
    teller.assert_told_to_the_end(sqlite_database)


def test_what_waits_for_room_is_made_room_for_however_much_it_is():
    assert to_free(500, 900) == to_free(500, 900, growth=ceiling(900) - 500) == 0
    assert to_free(500, 900, growth=ceiling(900) - 500 + 75) == 75
    assert to_free(700, 900, growth=10) == to_free(700, 900)
