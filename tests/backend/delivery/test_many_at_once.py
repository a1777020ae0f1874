"""Thousands of alerts fire at once: they are stored together, go out together, and each is told once."""

from __future__ import annotations

import threading
import time
from collections import Counter

from kvxray_backend.delivery import keeping, lane
from kvxray_storage.outbox import notifications_of

from tests.backend.delivery.sent_alerts import hook, made_alert
from tests.backend.served import until


def many(number):
    return [made_alert(f"alert-{n}", engine=f"engine-{n}") for n in range(number)]


def posted(receiver):
    """How often an Alertmanager was told of each engine, and by how many POSTs."""
    bodies = [came.json for came in list(receiver.came) if came.path.endswith("/alerts") and came.body]
    return Counter(alert["labels"]["engine"] for body in bodies for alert in body), len(bodies)


def test_more_than_a_lane_holds_reach_an_alertmanager_in_a_few_posts_and_transactions(receiver, sending):
    one = sending(alertmanagers=receiver.url)
    errands, send = [], one.log.errand
    one.log.errand = lambda write: errands.append(write) or send(write)
    # Told of nothing that fires before that: what comes is what was due.
    until(lambda: receiver.came)
    alerts = many(lane.MAX_WAITING + 600)
    one.fire(*alerts)
    until(lambda: one.delivery.targets()[0].waiting == 0 and not one.keeper.unstored)
    told, posts = posted(receiver)
    assert told == Counter(alert.engine for alert in alerts)
    assert posts < 40
    assert len(errands) < 80, "one for each alert, one for each POST, would be thousands"
    one.close()
    again = sending(alertmanagers=receiver.url, start=False)
    stored = notifications_of(again.database, [alert.id for alert in alerts[:500]])
    assert len(stored) == 500
    assert all(row.delivered_ns for row in stored), "a restart would tell them again"


def test_a_database_that_is_slow_is_waited_for_once_and_not_for_each_post(receiver, sending, monkeypatch):
    monkeypatch.setattr(keeping, "WAIT_S", 1.5)
    monkeypatch.setattr(lane, "STORED_WAIT_NS", 100_000_000)
    monkeypatch.setattr(lane, "GROUP_WAIT_NS", 0)
    one = sending(hook(receiver))
    answers = threading.Event()
    one.log.errand(lambda connection: answers.wait(60))
    alerts = many(500)
    began_s = time.monotonic()
    try:
        one.fire(*alerts)
        until(lambda: len(receiver.told) == len(alerts))
        lasted_s = time.monotonic() - began_s
    finally:
        answers.set()
    # Ten POSTs and more: two waits each were half a minute.
    assert lasted_s < 12
    until(lambda: not one.keeper.unstored)
    one.close()
    assert Counter(receiver.told) == Counter(f"{alert.id}:fired:pager" for alert in alerts)
    again = sending(hook(receiver), start=False)
    assert all(row.delivered_ns for row in notifications_of(again.database, [alert.id for alert in alerts]))


def test_one_among_many_that_cannot_be_read_costs_few_posts(receiver, sending, quick):
    receiver.refuses = lambda came: came.path.endswith("/alerts") and b'"engine-bad"' in came.body
    one = sending(alertmanagers=receiver.url)
    until(lambda: receiver.came)
    bad, alerts = made_alert("bad", engine="engine-bad"), many(100)
    one.fire(*alerts[:50], bad, *alerts[50:])
    until(lambda: one.delivery.targets()[0].waiting == 0)
    told, posts = posted(receiver)
    assert one.told(bad)["fired"].startswith("It refuses what was sent (400)")
    assert all(one.told(alert)["fired"] for alert in alerts)
    assert posts < 40, "each alone would be a hundred"
