"""kill -9 of the receiver and of ours, at any moment: whatever is stored as due is told, in order, under one id."""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
import types

import pytest
import sqlalchemy as sa
from kvxray_storage import models
from kvxray_storage.database import open_database
from kvxray_storage.verify import verify

from tests.backend.delivery.alertmanager_server import free_port
from tests.backend.delivery.receiver_process import ReceiverProcess
from tests.backend.delivery.tell_until_killed import tell_for_ever, tell_the_rest

KILLS = 3
WAIT_S = 60.0


@pytest.fixture
def receiver(tmp_path):
    receiver = ReceiverProcess(free_port(), tmp_path / "came.jsonl")
    try:
        receiver.start()
        yield receiver
    finally:
        receiver.kill()


def test_a_receiver_that_is_killed_and_restored_gets_each_notification_once(make_database_url, receiver, monkeypatch):
    start, url = starter(monkeypatch), make_database_url()
    teller = start.Process(target=tell_for_ever, args=(url, receiver.port))
    teller.start()
    moments = random.Random(8)
    try:
        for _ in range(KILLS):
            receiver.until_more_came(3)
            receiver.kill()
            time.sleep(moments.uniform(0, 0.2))
            receiver.start()
        receiver.until_more_came(3)
    finally:
        teller.kill()
        teller.join()
    rest(start, url, receiver)
    check(url, receiver)


def test_ours_is_killed_in_the_middle_and_goes_on_where_it_was(make_database_url, receiver, monkeypatch):
    start, url = starter(monkeypatch), make_database_url()
    moments = random.Random(9)
    for _ in range(KILLS):
        teller = start.Process(target=tell_for_ever, args=(url, receiver.port))
        teller.start()
        try:
            receiver.until_more_came(2)
            time.sleep(moments.uniform(0, 0.1))
        finally:
            teller.kill()
            teller.join()
    rest(start, url, receiver)
    check(url, receiver)


def starter(monkeypatch):
    """A process that has imported everything and forks the others."""
    # What other tests made the main module is nothing that a new process should run again.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.backend.delivery.tell_until_killed", "psycopg"])
    return context


def rest(start, url, receiver):
    last = start.Process(target=tell_the_rest, args=(url, receiver.port))
    last.start()
    last.join(WAIT_S)
    assert last.exitcode == 0, "not all was told"


def check(url, receiver):
    came = receiver.came()
    database = open_database(url)
    try:
        table = models.notification
        with database.reading() as connection:
            stored = connection.execute(sa.select(table.c.id, table.c.kind, table.c.delivered_ns)).all()
        assert len(stored) > 20, "nothing was under load"
        assert all(row.delivered_ns for row in stored)
        assert verify(database).faults == []
    finally:
        database.close()
    told = [name for _, ids in came for name in ids]
    assert {row.id for row in stored} <= set(told)
    by_id = {}
    for delivery, ids in came:
        for name in ids:
            assert by_id.setdefault(name, delivery) == delivery, f"{name} came by two deliveries"
    # A receiver that knows the id of a delivery again has each once.
    once = {delivery: tuple(ids) for delivery, ids in came}
    assert all(once[delivery] == tuple(ids) for delivery, ids in came), "a delivery came again as another"
    first = {name: place for place, name in reversed(list(enumerate(told)))}
    for name, place in first.items():
        if name.endswith(":over:pager"):
            assert first[name.replace(":over:", ":fired:")] < place
