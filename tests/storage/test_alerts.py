"""Alerts and rules in the event log: stored again and again, found by what is asked, gone when they are old."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from kvxray_storage import models
from kvxray_storage.alerts import (
    AlertRow,
    RuleRow,
    Wanted,
    alert_of,
    alerts,
    forget_rule,
    keep_rule,
    kept_rules,
    num_alerts,
    store_alert,
)
from kvxray_storage.outbox import Notification, store_notifications
from kvxray_storage.pruner import Pruner
from kvxray_storage.retention import Limits
from kvxray_storage.retention_plan import make_plan
from kvxray_storage.verify import verify

DAY = 86_400 * 1_000_000_000
ROW = AlertRow("a1", "LeakNamed", "engine", "warning", "firing", 10, 20, None, '{"labels": {}}')


def store(database, *rows):
    with database.writing() as connection:
        for row in rows:
            store_alert(connection, row)


def test_the_newest_state_of_an_alert_takes_the_place_of_what_was_stored(database):
    store(database, ROW)
    over = replace(ROW, state="over", ended_ns=30)
    store(database, over)
    assert alert_of(database, "a1") == over
    assert alert_of(database, "a2") is None
    assert not verify(database).faults


def test_alerts_are_found_by_state_rule_engine_and_severity_the_newest_first(database):
    rows = [replace(ROW, id=f"a{n}", engine=f"engine-{n % 2}", fired_ns=100 + n) for n in range(6)]
    rows[5] = replace(rows[5], state="over", ended_ns=300, severity="critical")
    store(database, *rows)
    assert [row.id for row in alerts(database, Wanted(), 3, 1)] == ["a4", "a3", "a2"]
    assert [row.id for row in alerts(database, Wanted("over"), 9)] == ["a5"]
    assert [row.id for row in alerts(database, Wanted(engine="engine-1"), 9)] == ["a5", "a3", "a1"]
    assert num_alerts(database, Wanted("firing", engine="engine-1")) == 2
    assert num_alerts(database, Wanted(rule="Other")) == num_alerts(database, Wanted(severity="info")) == 0


def test_what_was_over_long_ago_goes_with_what_was_told_of_it_and_what_fires_stays(database):
    now_ns = 1_000 * DAY
    old = replace(ROW, id="old", state="over", ended_ns=now_ns - 900 * DAY)
    young = replace(ROW, id="young", state="over", ended_ns=now_ns - DAY)
    fires = replace(ROW, id="fires")
    store(database, old, young, fires)
    told = [Notification(f"{row.id}:fired:t", "t", row.id, "fired", 20, 20, delivered_ns=21) for row in (old, young)]
    with database.writing() as connection:
        store_notifications(connection, told)

    def run(writes):
        for write in writes:
            with database.writing() as connection:
                write(connection)

    Pruner(database, run).carry_out(make_plan(database, Limits(7 * 86_400, None), now_ns, ()))
    assert {row.id for row in alerts(database, Wanted(), 9)} == {"young", "fires"}
    with database.reading() as connection:
        assert connection.execute(sa.select(models.notification.c.alert_id)).scalars().all() == ["young"]


def test_what_was_decided_of_a_rule_is_kept_and_forgotten(database):
    keep_rule(database, RuleRow("LeakNamed", True, None, 1))
    keep_rule(database, RuleRow("LeakNamed", False, None, 2))
    keep_rule(database, RuleRow("Own", True, "rules: []", 3))
    assert kept_rules(database) == [RuleRow("LeakNamed", False, None, 2), RuleRow("Own", True, "rules: []", 3)]
    assert not verify(database).faults
    assert forget_rule(database, "Own")
    assert not forget_rule(database, "Own")
