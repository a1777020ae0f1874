"""A database that takes no writes for a while, the disk full or a lock held: it is said, nothing is lost, it heals."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa
from kvxray_engine.stream.schema import Kind
from kvxray_storage import history
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.file_watch import LOOK_EVERY_S, FileWatch
from kvxray_storage.records import Cursor
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.retention import Limits
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.verify import verify
from kvxray_storage.write_queue import message_bytes

from tests.storage.told_hashes import EVENTFUL, Life, last_seq
from tests.storage.told_messages import T0_NS, Teller, Told, descriptor, expand

WAIT_S = 60.0
NO_LIMIT = 1 << 30


class Disk:
    """A limit on the size of the file, by SQLite itself: what goes beyond fails as on a full disk."""

    def __init__(self, database):
        self.pages = NO_LIMIT
        self._database = database
        sa.event.listen(database.engine, "checkout", self._limit)

    def _limit(self, connection, *_):
        connection.execute(f"PRAGMA max_page_count={self.pages}")

    def fill(self):
        with self._database.reading() as connection:
            self.pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def free(self):
        self.pages = NO_LIMIT


@pytest.fixture
def disk(sqlite_database):
    return Disk(sqlite_database)


def open_epoch(log, incarnation="life-1"):
    return log.open_epoch("engine", {}, incarnation, descriptor(), T0_NS)


def large(teller):
    """Hash bytes do not compress: each of these needs pages."""
    return teller.tell([Told(Kind.StepStarted)], num_hashes=300)


def wait_until(log, condition):
    with log._changed:
        assert log._changed.wait_for(condition, WAIT_S), "it did not happen in time"


def test_a_full_disk_is_said_and_nothing_is_lost_when_there_is_room_again(sqlite_database, disk):
    teller = Teller()
    with EventLog(sqlite_database, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        messages = [large(teller) for _ in range(3)]
        assert all(log.append(key, message) for message in messages)
        assert log.flush(WAIT_S)
        acknowledged = log.cursor(key)
        disk.fill()
        messages += [large(teller) for _ in range(20)]
        assert all(log.append(key, message) for message in messages[3:])
        wait_until(log, lambda: log._writer.failed is not None)
        assert log.failed == (
            f"The database at {sqlite_database.path} takes no writes: the disk is full; free some space, "
            "and kvxray goes on by itself."
        )
        assert not log.flush(0.2)
        assert log.cursor(key) == acknowledged == Cursor(3, 3)
        # What is stored can be read all the while.
        assert len(history.tail(sqlite_database, key, 100)) == 3
        log.check_integrity()
        disk.free()
        assert log.flush(WAIT_S)
        assert log.failed is None
        assert log.cursor(key) == Cursor(23, 23)
        log.check_integrity()
    assert history.events(sqlite_database, key, 0, 1000) == expand(messages, teller.names)
    sqlite_database.check_integrity()


def test_while_the_disk_is_full_the_queue_stays_bounded_and_what_it_refused_becomes_a_gap(sqlite_database, disk):
    teller = Teller()
    messages = [large(teller) for _ in range(12)]
    room = 5 * message_bytes(messages[0])
    with EventLog(sqlite_database, chunk_seconds=0.01, max_queue_bytes=room) as log:
        key = open_epoch(log)
        disk.fill()
        taken = [log.append(key, message) for message in messages]
        assert taken == [True] * 5 + [False] * 7
        for message in messages[5:]:
            assert log.gap(key, message.header.wire_seq, message.header.wire_seq, message.header.seq0,
                           message.header.seq0, T0_NS, "the log's queue was full")  # fmt: skip
        wait_until(log, lambda: log._writer.failed is not None)
        assert log.stats().queue_bytes <= room
        log.check_integrity()
        disk.free()
        assert log.flush(WAIT_S)
        assert log.cursor(key) == Cursor(12, 12)
        assert log.dropped == 7
    assert history.events(sqlite_database, key, 0, 1000) == expand(messages[:5], teller.names)
    [gap] = history.gaps(sqlite_database, key, 10)
    assert (gap.wire_seq0, gap.wire_seq1, gap.seq0, gap.seq1) == (5, 11, 5, 11)


def test_an_epoch_opens_while_the_disk_is_full(sqlite_database, disk):
    teller = Teller("life-2")
    with EventLog(sqlite_database, chunk_seconds=0.01) as log:
        first = open_epoch(log, "life-1")
        disk.fill()
        assert log.append(first, large(Teller("life-1")))
        wait_until(log, lambda: log._writer.failed is not None)
        second = open_epoch(log, "life-2")
        message = large(teller)
        assert log.append(second, message)
        assert [one.epoch for one in history.epochs(sqlite_database, "engine")] == [1]
        disk.free()
        assert log.flush(WAIT_S)
    assert [one.epoch for one in history.epochs(sqlite_database, "engine")] == [1, 2]
    assert history.events(sqlite_database, second, 0, 10) == expand([message], teller.names)


def test_closing_while_the_disk_is_full_ends_in_time_and_keeps_what_was_acknowledged(sqlite_database, disk):
    teller = Teller()
    log = EventLog(sqlite_database, chunk_seconds=0.01)
    key = open_epoch(log)
    stored = large(teller)
    assert log.append(key, stored)
    assert log.flush(WAIT_S)
    disk.fill()
    assert log.append(key, large(teller))
    assert not log.close(timeout_s=0.1)
    assert "the disk is full" in log.failed
    disk.free()
    assert history.events(sqlite_database, key, 0, 10) == expand([stored], teller.names)
    with EventLog(sqlite_database) as again:
        assert again.cursor(open_epoch(again)) == Cursor(1, 1)


def test_a_locked_database_is_said_and_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("kvxray_storage.database.BUSY_TIMEOUT_S", 0.05)
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    teller = Teller()
    with EventLog(database, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        message = teller.tell_step()
        assert log.append(key, message)
        wait_until(log, lambda: log._writer.failed is not None)
        assert "another program keeps it locked" in log.failed
        other.execute("ROLLBACK")
        other.close()
        assert log.flush(WAIT_S)
        assert log.failed is None
    assert history.events(database, key, 0, 10) == expand([message], teller.names)
    database.close()


def test_a_file_that_was_removed_is_said_and_nothing_is_lost_when_it_comes_back(sqlite_database, monkeypatch):
    monkeypatch.setattr("kvxray_storage.file_watch.LOOK_EVERY_S", 0.0)
    teller = Teller()
    away = sqlite_database.path.with_name("away.db")
    with EventLog(sqlite_database, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        messages = [teller.tell_step()]
        assert log.append(key, messages[0])
        assert log.flush(WAIT_S)
        sqlite_database.path.rename(away)
        messages.append(teller.tell_step())
        assert log.append(key, messages[1])
        wait_until(log, lambda: log._writer.failed is not None)
        gone = f"The database file {sqlite_database.path} was removed while kvxray was running"
        sentence = f"{gone}: restart kvxray to begin a new one."
        assert log.failed == sentence
        # Another file in its place is not the one that is written.
        sqlite_database.path.write_bytes(b"")
        messages.append(teller.tell_step())
        assert log.append(key, messages[2])
        assert not log.flush(0.2)
        assert (log.failed, log.cursor(key)) == (sentence, Cursor(1, 5))
        log.check_integrity()
        away.replace(sqlite_database.path)
        assert log.flush(WAIT_S)
        assert log.failed is None
        log.check_integrity()
    assert history.events(sqlite_database, key, 0, 1000) == expand(messages, teller.names)
    sqlite_database.check_integrity()


def test_closing_while_the_file_is_gone_ends_in_time(sqlite_database, monkeypatch):
    monkeypatch.setattr("kvxray_storage.file_watch.LOOK_EVERY_S", 0.0)
    log = EventLog(sqlite_database, chunk_seconds=0.01)
    key = open_epoch(log)
    sqlite_database.path.unlink()
    assert log.append(key, Teller().tell_step())
    assert not log.close(timeout_s=0.1)
    assert "was removed while kvxray was running" in log.failed


def test_retention_of_a_file_that_is_gone_says_so_in_one_sentence(sqlite_database, monkeypatch, caplog):
    monkeypatch.setattr("kvxray_storage.file_watch.LOOK_EVERY_S", 0.0)
    caplog.set_level("INFO", "kvxray_storage.retention_keeper")
    log = EventLog(sqlite_database)
    keeper = RetentionKeeper(sqlite_database, log, Retention(Limits(max_age_s=1), {}))
    sqlite_database.path.unlink()
    keeper._look_or_say_why_not()
    log.close(timeout_s=0.1)
    (said,) = [record for record in caplog.records if record.name == "kvxray_storage.retention_keeper"]
    assert said.exc_info is None
    assert "was removed while kvxray was running" in said.getMessage()


def test_while_all_is_well_the_file_is_looked_at_once_a_second(tmp_path):
    path = tmp_path / "kvxray.db"
    path.write_bytes(b"")
    watch = FileWatch(path)
    path.unlink()
    assert not watch.is_gone()
    watch._looked_at -= LOOK_EVERY_S
    assert watch.is_gone()
    assert not FileWatch(None).is_gone()


def test_a_reader_that_stays_in_its_transaction_does_not_stop_the_writer(database):
    teller = Teller()
    with EventLog(database, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        assert log.append(key, teller.tell_step())
        assert log.flush(WAIT_S)
        with database.reading() as reader:
            count = "SELECT sum(num_events) FROM chunk"
            assert reader.exec_driver_sql(count).scalar() == 5
            for _ in range(20):
                assert log.append(key, teller.tell_step())
                assert log.flush(WAIT_S)
            assert reader.exec_driver_sql(count).scalar() == 5
        assert len(history.events(database, key, 0, 1000)) == 105


def test_a_stream_of_hashes_whose_disk_is_full_for_a_while_loses_nothing(sqlite_database, disk):
    life = Life().hear_all(*EVENTFUL[:2])
    half = len(life.told) // 2
    with EventLog(sqlite_database, chunk_seconds=0.01) as log:
        key = life.store(log, end=half)
        acknowledged = log.cursor(key)
        disk.fill()
        for at in range(half, len(life.told)):
            assert log.append(key, life.told[at])
        wait_until(log, lambda: log._writer.failed is not None)
        assert "the disk is full" in log.failed
        assert log.cursor(key) == acknowledged
        disk.free()
        assert log.flush(WAIT_S)
    state = residency_at(sqlite_database, key, last_seq(life.told[-1]))
    assert residency_difference(state, life.fold) == ""
    assert verify(sqlite_database).faults == []
