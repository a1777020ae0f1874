"""Alerts made up, and a delivery that is handed them as the watch hands them in."""

from __future__ import annotations

import time

from kvxray_backend.alerts.alert import Alert, AlertMoment
from kvxray_backend.alerts.alert_keeper import AlertKeeper
from kvxray_backend.alerts.links import page_link, whole_link
from kvxray_backend.delivery.delivery import Delivery
from kvxray_backend.settings import load_settings
from kvxray_engine.clock import SystemClock
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

SECOND_NS = 1_000_000_000


def made_alert(name="alert-1", rule="LeakNamed", engine="engine-a", **changes) -> Alert:
    now_ns = time.time_ns()
    values = {
        "id": name, "rule": rule, "severity": "warning", "engine": engine, "state": "firing",
        "labels": {"cluster": "east", "namespace": "serving", "pod": "vllm-0", "make": "vllm", "role": "decode"},
        "began_ns": now_ns - 60 * SECOND_NS, "fired_ns": now_ns,
        "moment": AlertMoment(source=engine, epoch=3, seq=104, time_ns=now_ns),
        "sentence": "Blocks are held by requests that are over.", "culprit": "Request r-17 holds 12 blocks.",
        **changes,
    }  # fmt: skip
    return Alert(**values)


def over(alert: Alert) -> Alert:
    return alert.model_copy(update={"state": "over", "ended_ns": max(time.time_ns(), alert.fired_ns + 1)})


def hook(receiver, name="pager", path="/hook", **more):
    return {"name": name, "url": f"{receiver.url}{path}", **more}


class Sending:
    """A delivery that runs over a database. `fire` and `end` store an alert with what is to be told of it, as the watch
    does it.
    """

    def __init__(self, url, hooks, *, timeout_s=10.0, told_again_s=60.0, look_s=15.0, start=True, **settings):
        self.settings = load_settings(webhooks=hooks, **settings)
        self.database = open_database(url)
        self.log = EventLog(self.database, chunk_seconds=0.01)
        self.delivery = Delivery(
            self.settings,
            self.database,
            self.log,
            SystemClock(),
            lambda alert: whole_link(self.settings, page_link(alert)),
            timeout_s=timeout_s,
            told_again_s=told_again_s,
            look_s=look_s,
        )
        self.keeper = AlertKeeper(self.log, self.database.place)
        self.firing = {}
        self._open = True
        if start:
            self.delivery.start()

    def fire(self, *alerts):
        for alert in alerts:
            self.firing[alert.id] = alert
            self._take(alert, "fired")
        self.delivery.firing(list(self.firing.values()))

    def end(self, *alerts):
        for alert in alerts:
            self.firing.pop(alert.id, None)
            self._take(over(alert), "over")
        self.delivery.firing(list(self.firing.values()))

    def told(self, alert):
        """By kind, of the first target: when it was told, or why not."""
        return {view.kind: view.delivered or view.error for view in self.delivery.told_of(alert.id)}

    def close(self):
        if self._open:
            self._open = False
            self.delivery.check_integrity()
            self.delivery.close()
            self.log.close()
            self.database.close()

    def _take(self, alert, kind):
        self.delivery.take(alert, kind, self.keeper.keep(alert, self.delivery.rows_for(alert, kind)))
