"""A disk that is really full and a server that is really gone: said, waited for, nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import psutil
import pytest
import sqlalchemy as sa
from kvxray_storage import history, models
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.verify import verify

from tests.conftest import NO_MOUNTS, skip_loudly
from tests.postgres_server import PostgresServer
from tests.storage.outages import MAX_QUEUE_BYTES, WAIT_S, SmallDisk, Source
from tests.storage.told_hashes import EVENTFUL, Life, last_seq
from tests.storage.told_messages import T0_NS, Teller, descriptor

DISK_BYTES = {"sqlite": 8 << 20, "postgresql": 160 << 20}


@pytest.fixture
def disk(database_kind):
    try:
        made = SmallDisk(DISK_BYTES[database_kind])
    except (subprocess.CalledProcessError, FileNotFoundError):
        skip_loudly(NO_MOUNTS)
    yield made
    made.remove()


@pytest.fixture
def server_on_disk(disk, database_kind, request):
    """None on SQLite."""
    if database_kind == "sqlite":
        yield None
        return
    server = PostgresServer(request.getfixturevalue("postgres_programs"), disk.folder)
    server.make()
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_server(postgres_programs):
    server = PostgresServer(postgres_programs)
    server.make()
    server.start()
    yield server
    server.remove()


def open_log(database):
    log = EventLog(database, chunk_seconds=0.01, max_queue_bytes=MAX_QUEUE_BYTES)
    return log, log.open_epoch("engine", {}, "life-1", descriptor(), T0_NS)


def wait_until(log, condition):
    by = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < by, f"it did not happen in time; the log says: {log.failed}"
        log.check_integrity()
        time.sleep(0.01)


def durable(log, key):
    cursor = log.cursor(key)
    return cursor.next_wire_seq if cursor else 0


def stored_cursor(database):
    with database.reading() as connection:
        return connection.execute(sa.select(models.cursor.c.next_wire_seq)).scalar_one()


def test_a_disk_that_is_really_full_loses_nothing_and_is_written_again_when_there_is_room(disk, server_on_disk):
    url = f"sqlite:///{disk.folder / 'kvxray.db'}" if server_on_disk is None else server_on_disk.url()
    database = open_database(url)
    log, key = open_log(database)
    source = Source(log, key)
    source.start()
    for _ in range(2):
        begun = durable(log, key)
        wait_until(log, lambda begun=begun: durable(log, key) > begun + 100)
        disk.fill()
        wait_until(log, lambda: log.failed is not None)
        wait_until(log, lambda: "the disk is full" in str(log.failed) or is_down(server_on_disk))
        refused = len(source.refused)
        wait_until(log, lambda refused=refused: len(source.refused) > refused + 20)
        acknowledged = durable(log, key)
        disk.free()
        if is_down(server_on_disk):
            server_on_disk.start()
        wait_until(log, lambda: log.failed is None)
        assert stored_cursor(database) >= acknowledged
    source.end()
    assert log.flush(WAIT_S)
    assert log.close()
    source.check_stored(database)
    database.check_integrity()
    if server_on_disk is not None:
        server_on_disk.check("postgres")
    database.close()


def is_down(server):
    """A server that cannot write its own log ends; whoever frees the disk starts it again."""
    return server is not None and server.process.poll() is not None


def test_a_server_that_vanishes_and_returns_costs_only_what_did_not_fit_meanwhile(own_server):
    database = open_database(own_server.url())
    log, key = open_log(database)
    source = Source(log, key)
    source.start()
    for outage in range(4):
        begun = durable(log, key)
        wait_until(log, lambda begun=begun: durable(log, key) > begun + 50)
        own_server.kill()
        acknowledged = durable(log, key)
        wait_until(log, lambda: log.failed is not None)
        assert "the server" in log.failed
        if outage % 2:
            # Every second time it is away for long enough that not everything can be kept.
            refused = len(source.refused)
            wait_until(log, lambda refused=refused: len(source.refused) > refused + 20)
        own_server.start()
        assert stored_cursor(database) >= acknowledged
        wait_until(log, lambda: log.failed is None)
    source.end()
    assert source.refused
    assert log.flush(WAIT_S)
    assert log.close()
    source.check_stored(database)
    own_server.check("postgres")
    database.close()


def test_a_server_that_hangs_does_not_keep_kvxray_from_ending(own_server, monkeypatch):
    monkeypatch.setattr("kvxray_storage.event_log.CLOSE_TIMEOUT_S", 0.2)
    database = open_database(own_server.url())
    log, key = open_log(database)
    message = Teller().tell_step()
    backends = psutil.Process(own_server.process.pid).children()
    for backend in backends:
        os.kill(backend.pid, signal.SIGSTOP)
    try:
        assert log.append(key, message)
        assert not log.flush(0.1)
        assert not log.close(timeout_s=0.1)
    finally:
        for backend in backends:
            os.kill(backend.pid, signal.SIGCONT)
    # The commit that hung may still come through, whole.
    log._writer.join(WAIT_S)
    assert len(history.events(database, key, 0, 10)) in (0, 5)
    database.close()


def test_a_stream_of_hashes_whose_server_vanishes_and_returns_loses_nothing(own_server):
    database = open_database(own_server.url())
    life = Life().hear_all(*EVENTFUL[:2])
    half = len(life.told) // 2
    log = EventLog(database, chunk_seconds=0.01)
    key = life.store(log, end=half)
    acknowledged = durable(log, key)
    own_server.kill()
    for at in range(half, len(life.told)):
        assert log.append(key, life.told[at])
    wait_until(log, lambda: log.failed is not None)
    assert durable(log, key) == acknowledged
    own_server.start()
    assert log.flush(WAIT_S)
    assert log.close()
    assert residency_difference(residency_at(database, key, last_seq(life.told[-1])), life.fold) == ""
    assert verify(database).faults == []
    database.close()
