"""Alerts fire and end, mutes come and go, tries fail or are lost, all begins anew from the database: in the end each
target has each thing that it was due once, in order.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from kvxray_backend.alerts.alert_rows import alert_row
from kvxray_backend.delivery.lanes import Lanes
from kvxray_backend.delivery.notice import rows_for
from kvxray_backend.delivery.outcome import Accepted, Failed, Refused
from kvxray_backend.delivery.stored_notices import read_notices
from kvxray_backend.delivery.target import Target
from kvxray_storage import models
from kvxray_storage.alerts import store_alert
from kvxray_storage.database import open_database
from kvxray_storage.outbox import keep_notifications, notifications_of, store_notifications

from tests.backend.delivery.sent_alerts import SECOND_NS, made_alert

TARGETS = [Target("pager", "webhook", "http://pager"), Target("Alertmanager am", "alertmanager", "http://am")]
ENGINES = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from([target.name for target in TARGETS])
FAILURES = {
    "lost": Failed("The answer was lost."),
    "away": Failed("Nothing answers.", may_have_arrived=False),
    "busy": Failed("It answers with 503.", retry_after_s=30.0),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    opened = open_database(f"sqlite:///{tmp_path_factory.mktemp('outbox') / 'log.db'}")
    # Nothing here loses its power, and a disk that is waited for takes minutes.
    sa.event.listen(opened.engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))
    opened.engine.dispose()
    yield opened
    opened.close()


class Outbox(RuleBasedStateMachine):
    """`arrived`: by target, deliveries in the order in which they first came, as a receiver that knows ids again has
    them.
    """

    database = None

    @initialize()
    def begin(self):
        with self.database.writing() as connection:
            for table in (models.notification, models.alert):
                connection.execute(sa.delete(table))
        self.now_ns = 1_800_000_000 * SECOND_NS
        self.lanes = Lanes(TARGETS)
        self.firing, self.alerts, self.ended = {}, {}, set()
        self.muted, self.was_muted = set(), set()
        self.arrived = defaultdict(dict)
        self.sent_before = set()
        self.given_up = set()

    @rule(engine=ENGINES)
    def fire_or_end(self, engine):
        self.now_ns += 1
        if engine in self.firing:
            alert = self.firing.pop(engine).model_copy(update={"state": "over", "ended_ns": self.now_ns})
            self.ended.add(alert.id)
            self.take(alert, "over")
        else:
            name = f"alert-{len(self.alerts)}"
            alert = made_alert(name, engine=engine, began_ns=self.now_ns, fired_ns=self.now_ns)
            self.firing[engine] = self.alerts[name] = alert
            self.was_muted |= {name} if engine in self.muted else set()
            self.take(alert, "fired")

    @rule(engine=ENGINES)
    def mute_or_end_the_mute(self, engine):
        self.muted ^= {engine}
        self.was_muted |= {alert.id for alert in self.alerts.values() if alert.engine in self.muted}

    @rule(name=NAMES, what=st.sampled_from(["accepted", "refused", *FAILURES]))
    def deliver(self, name, what):
        notices = self.begun(name)
        if not notices:
            return
        ids = tuple(notice.row.id for notice in notices)
        if notices[0].row.delivery in self.arrived[name] and what == "refused":
            what = "accepted"  # who could read a delivery once does not refuse the same one later
        if what in ("accepted", "lost"):
            self.arrive(name, notices[0].row.delivery, ids)
        if what == "refused" and len(ids) == 1:
            self.given_up.add(ids[0])
        refused = Refused("It cannot be read.")
        self.lanes.settle(name, FAILURES.get(what, refused if what == "refused" else Accepted()), self.now_ns)
        self.keep(name)

    @rule(name=NAMES)
    def be_killed_before_it_is_sent(self, name):
        self.begun(name)
        self.restart()

    @rule(name=NAMES)
    def be_killed_after_it_arrived_and_before_the_answer(self, name):
        notices = self.begun(name)
        if notices:
            self.arrive(name, notices[0].row.delivery, tuple(notice.row.id for notice in notices))
        self.restart()

    @rule()
    def restart(self):
        self.lanes = Lanes(TARGETS)
        for target in TARGETS:
            notices, lost, has_more = read_notices(self.database, [target.name], 1000)
            assert not lost
            assert not has_more
            self.lanes.put_stored(target.name, notices, has_more=False)

    @rule(seconds=st.integers(1, 400))
    def wait(self, seconds):
        self.now_ns += seconds * SECOND_NS

    @rule()
    def set_the_clock_back(self):
        self.now_ns -= 7200 * SECOND_NS

    @invariant()
    def it_is_sound(self):
        if hasattr(self, "lanes"):
            self.lanes.check_integrity()

    def teardown(self):
        if not hasattr(self, "lanes"):
            return
        self.muted.clear()
        for target in TARGETS:
            for _ in range(200):
                if not self.lanes.waiting(target.name):
                    break
                self.now_ns += 4000 * SECOND_NS
                self.deliver(target.name, "accepted")
            self.check(target)

    def check(self, target):
        came = [name for ids in self.arrived[target.name].values() for name in ids]
        assert len(came) == len(set(came)), "something came twice"
        rows = {row.id: row for row in notifications_of(self.database, list(self.alerts))}
        due = {f"{name}:fired:{target.name}" for name in self.alerts}
        due |= {f"{name}:over:{target.name}" for name in self.ended}
        missing = due - set(came) - self.given_up
        assert set(came) <= due
        for name in missing:
            row = rows[name]
            assert row.error == "Muted until it was over.", f"{name} never came"
            assert row.alert_id in self.was_muted & self.ended
            assert f"{row.alert_id}:fired:{target.name}" in missing, "half a story was told"
        place = {name: at for at, name in enumerate(came)}
        for name in self.ended:
            fired, over = (place.get(f"{name}:{kind}:{target.name}") for kind in ("fired", "over"))
            assert fired is None or over is None or fired < over
        assert not any(row.waits for row in rows.values() if row.target == target.name)

    def take(self, alert, kind):
        rows = rows_for(TARGETS, alert, kind, self.now_ns)
        with self.database.writing() as connection:
            store_alert(connection, alert_row(alert))
            store_notifications(connection, rows)
        assert not self.lanes.take(alert, kind, rows, self.now_ns)
        self.lanes.stored(rows)

    def begun(self, name):
        notices = self.lanes.begin(name, self.now_ns, lambda alert: alert.engine in self.muted)
        self.keep(name)
        for notice in notices:
            is_muted = notice.row.kind == "fired" and notice.alert.engine in self.muted
            assert not is_muted or notice.row.id in self.sent_before, "somebody was told of what is muted"
            self.sent_before.add(notice.row.id)
        return notices

    def keep(self, name):
        rows = self.lanes.unsaved(name)
        with self.database.writing() as connection:
            keep_notifications(connection, rows)
        self.lanes.saved(name, rows)

    def arrive(self, name, delivery, ids):
        assert self.arrived[name].setdefault(delivery, ids) == ids, "one id stood for two deliveries"


def test_each_target_has_each_thing_it_was_due_once_and_in_order(database):
    Outbox.database = database
    run_state_machine_as_test(
        Outbox,
        settings=settings(
            max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
