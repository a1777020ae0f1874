"""Alerts become durable together; what the database refuses waits, and keeps nothing else from being stored."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from kvxray_backend.alerts import alert_keeper
from kvxray_backend.alerts.alert_keeper import AlertKeeper
from kvxray_storage.alerts import Wanted, alerts
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.backend.delivery.sent_alerts import made_alert, over
from tests.backend.served import until


@pytest.fixture
def database(tmp_path):
    opened = open_database(f"sqlite:///{tmp_path / 'log.db'}")
    yield opened
    opened.close()


@pytest.fixture
def log(database):
    log = EventLog(database)
    yield log
    log.close()


@pytest.fixture
def refused(monkeypatch):
    """Ids of alerts that no database takes."""
    ids, store = set(), alert_keeper.store_alerts

    def refuse(connection, rows):
        if ids & {row.id for row in rows}:
            raise sa.exc.DataError("no", None, ValueError())
        store(connection, rows)

    monkeypatch.setattr(alert_keeper, "store_alerts", refuse)
    return ids


def stored(database):
    return {row.id: row.state for row in alerts(database, Wanted(), 10_000)}


def test_while_one_transaction_is_under_way_all_others_wait_for_the_next_one(database, log, monkeypatch):
    monkeypatch.setattr(alert_keeper, "MAX_TOGETHER", 100)
    sizes, store = [], alert_keeper.store_alerts
    monkeypatch.setattr(alert_keeper, "store_alerts", lambda c, rows: sizes.append(len(rows)) or store(c, rows))
    goes_on, keeper = threading.Event(), AlertKeeper(log, "here.db")
    log.errand(lambda connection: goes_on.wait(30))
    kept = [keeper.keep(made_alert(f"a{n}"), []) for n in range(251)]
    goes_on.set()
    for done in kept:
        assert done.result(30) is None
    assert sizes == [1, 100, 100, 50]
    assert len(stored(database)) == 251
    assert keeper.unstored == []


def test_what_becomes_of_an_alert_while_it_is_stored_is_stored_after_it(database, log):
    goes_on, keeper, alert = threading.Event(), AlertKeeper(log, "here.db"), made_alert("a")
    log.errand(lambda connection: goes_on.wait(30))
    fired, ended = keeper.keep(alert, []), keeper.keep(over(alert), [])
    assert [one.state for one in keeper.unstored] == ["over"]
    goes_on.set()
    assert fired.result(30) is ended.result(30) is None
    assert stored(database) == {"a": "over"}


def test_one_that_no_database_takes_keeps_the_others_from_it_for_a_few_looks_only(database, log, refused):
    refused.add("a7")
    goes_on, keeper = threading.Event(), AlertKeeper(log, "here.db")
    log.errand(lambda connection: goes_on.wait(30))
    kept = [keeper.keep(made_alert(f"a{n}"), []) for n in range(100)]
    goes_on.set()
    for done in kept[1:]:
        assert isinstance(done.exception(30), sa.exc.DataError), "nobody waits for it in vain"
    for _ in range(12):
        keeper.try_again()
        until(lambda: keeper._under_way is None)
    assert set(stored(database)) == {f"a{n}" for n in range(100)} - {"a7"}
    assert [one.id for one in keeper.unstored] == ["a7"]
    assert keeper.trouble.startswith("The database at here.db takes no writes:")
    refused.clear()
    keeper.try_again()
    until(lambda: not keeper.unstored)
    assert keeper.trouble == ""
    assert len(stored(database)) == 100


def test_a_database_that_refuses_is_asked_once_a_round_however_many_wait(log, refused, monkeypatch):
    refused |= {f"a{n}" for n in range(1000)}
    asked, send = [], log.errand
    monkeypatch.setattr(log, "errand", lambda write: asked.append(write) or send(write))
    goes_on, keeper = threading.Event(), AlertKeeper(log, "here.db")
    send(lambda connection: goes_on.wait(30))
    kept = [keeper.keep(made_alert(f"a{n}"), []) for n in range(1000)]
    goes_on.set()
    for done in kept:
        assert done.exception(30) is not None
    assert len(asked) == 1
    keeper.try_again()
    until(lambda: keeper._under_way is None)
    assert len(asked) == 2
    assert len(keeper.unstored) == 1000


def test_the_end_waits_for_what_is_being_stored(database, log):
    goes_on, keeper = threading.Event(), AlertKeeper(log, "here.db")
    log.errand(lambda connection: goes_on.wait(30))
    keeper.keep(made_alert("a"), [])
    threading.Timer(0.2, goes_on.set).start()
    keeper.close(30)
    assert stored(database) == {"a": "firing"}
