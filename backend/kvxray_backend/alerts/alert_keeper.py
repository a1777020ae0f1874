"""Makes durable what becomes of alerts, each with what is to be told of it in one transaction; what the database would
not take waits, and is live all the same.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

import sqlalchemy as sa
from kvxray_storage.alerts import store_alert
from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import Notification, store_notifications

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_rows import alert_row


@dataclass(slots=True)
class _Unstored:
    """The newest of an alert that is not known to be stored; `written`: what is being written, and how it went."""

    alert: Alert
    rows: list[Notification] = field(default_factory=list)
    written: tuple[Alert, int, Future[None]] | None = None


class AlertKeeper:
    """Safe to call from any thread; nothing waits."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._unstored: dict[str, _Unstored] = {}

    @property
    def unstored(self) -> list[Alert]:
        """Those that the database may not tell yet as they are."""
        self._settle()
        with self._lock:
            return [one.alert for one in self._unstored.values()]

    def keep(self, alert: Alert, rows: list[Notification]) -> Future[None]:
        """The future tells when it is durable, or why it could not be made so for now."""
        with self._lock:
            waiting = self._unstored.setdefault(alert.id, _Unstored(alert))
            waiting.alert = alert
            waiting.rows = [*waiting.rows, *rows]
            return self._write(waiting)

    def try_again(self) -> None:
        """What failed."""
        self._settle()
        with self._lock:
            for waiting in self._unstored.values():
                if waiting.written is None:
                    self._write(waiting)

    def _write(self, waiting: _Unstored) -> Future[None]:
        row, rows = alert_row(waiting.alert), tuple(waiting.rows)

        def write(connection: sa.Connection) -> None:
            store_alert(connection, row)
            store_notifications(connection, rows)

        done = self._log.errand(write)
        waiting.written = waiting.alert, len(rows), done
        return done

    def _settle(self) -> None:
        with self._lock:
            for id, waiting in [*self._unstored.items()]:
                if waiting.written is None or not waiting.written[2].done():
                    continue
                alert, num_rows, done = waiting.written
                waiting.written = None
                if done.exception() is None:
                    del waiting.rows[:num_rows]
                    if waiting.alert is alert:
                        del self._unstored[id]
