"""One writer a PostgreSQL database, also when the server or the line to it goes away in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from kvxray_engine.errors import UserError
from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.storage.told_messages import T0_NS, Teller, descriptor, expand

WAIT_S = 60.0
ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

log = EventLog(open_database(sys.argv[1]))
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def databases(postgres_url, monkeypatch):
    """The same one, opened by two; the lock is looked at before every commit."""
    monkeypatch.setattr("kvxray_storage.server_claim.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("kvxray_storage.server_claim.WAIT_S", 0.1)
    both = open_database(postgres_url), open_database(postgres_url)
    yield both
    for database in both:
        database.close()


def open_epoch(log):
    return log.open_epoch("engine", {}, "life-1", descriptor(), T0_NS)


def end_sessions(url):
    """As a server that restarts does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def wait_until_failed(log):
    with log._changed:
        assert log._changed.wait_for(lambda: log._writer.failed is not None, WAIT_S)


def test_a_killed_kvxray_leaves_no_claim_behind(postgres_url):
    database = open_database(postgres_url)
    command = [sys.executable, "-c", HOLDER, postgres_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout.readline() == "claimed\n"
        with pytest.raises(UserError, match=r"Another kvxray already writes .* a database of its own"):
            EventLog(database)
        process.kill()
    EventLog(database).close()
    database.close()


def test_a_lost_session_is_made_anew_and_the_claim_with_it(databases, postgres_url):
    mine, other = databases
    teller = Teller()
    messages = [teller.tell_step() for _ in range(2)]
    with EventLog(mine, chunk_seconds=0.01) as log:
        key = open_epoch(log)
        assert log.append(key, messages[0])
        assert log.flush(WAIT_S)
        end_sessions(postgres_url)
        assert log.append(key, messages[1])
        assert log.flush(WAIT_S)
        assert log.failed is None
        with pytest.raises(UserError, match="Another kvxray already writes"):
            EventLog(other)
    assert history.events(other, key, 0, 100) == expand(messages, teller.names)


def test_who_lost_the_claim_to_another_stores_nothing_while_that_one_writes(databases, postgres_url):
    mine, other = databases
    teller = Teller()
    messages = [teller.tell_step() for _ in range(2)]
    log = EventLog(mine, chunk_seconds=0.01)
    key = open_epoch(log)
    assert log.append(key, messages[0])
    assert log.flush(WAIT_S)
    end_sessions(postgres_url)
    with EventLog(other, chunk_seconds=0.01) as another:
        assert open_epoch(another) == key
        assert log.append(key, messages[1])
        wait_until_failed(log)
        assert "Another kvxray already writes to the database at" in log.failed
        assert another.append(key, messages[1])
        assert another.flush(WAIT_S)
        assert not log.close(timeout_s=0.1)
    assert history.events(other, key, 0, 100) == expand(messages, teller.names)


def test_nor_does_it_after_that_one_has_ended_since_what_it_knows_is_no_longer_true(databases, postgres_url):
    mine, other = databases
    teller = Teller()
    messages = [teller.tell_step() for _ in range(2)]
    log = EventLog(mine, chunk_seconds=0.01)
    key = open_epoch(log)
    assert log.append(key, messages[0])
    assert log.flush(WAIT_S)
    end_sessions(postgres_url)
    with EventLog(other) as another:
        assert another.append(open_epoch(another), messages[1])
    assert log.append(key, messages[1])
    wait_until_failed(log)
    assert "took over the database at" in log.failed
    assert "restart the other" in log.failed
    assert not log.close(timeout_s=0.1)
    assert history.events(other, key, 0, 100) == expand(messages, teller.names)
