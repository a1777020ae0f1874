"""Makes durable what becomes of alerts, each with what is to be told of it in one transaction, many alerts in one; what
the database would not take waits, and is live all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
from kvxray_storage.alerts import store_alerts
from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import Notification, store_notifications
from kvxray_storage.refusals import why_not_written

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_rows import alert_row

MAX_TOGETHER: Final = 250
"""Alerts in one transaction: whoever waits for the writer waits for all of them."""


@dataclass(slots=True)
class _Unstored:
    """The newest of an alert that is not known to be stored, and who waits for it. `is_new`: nobody tried yet."""

    alert: Alert
    rows: list[Notification] = field(default_factory=list)
    futures: list[Future[None]] = field(default_factory=list)
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class _Written:
    """What one transaction has of an alert."""

    alert: Alert
    rows: tuple[Notification, ...]
    futures: tuple[Future[None], ...]


class AlertKeeper:
    """Safe to call from any thread; nothing waits but `close`. One transaction is under way at a time."""

    def __init__(self, log: EventLog, place: str) -> None:
        """place: of the database, as people are told of it."""
        self._log = log
        self._place = place
        self._refused: Exception | None = None
        self._lock = threading.Lock()
        self._unstored: dict[str, _Unstored] = {}
        self._under_way: Future[None] | None = None
        # Fewer after a failure, so that one alert that no database takes keeps the others from it for a while only.
        self._together = MAX_TOGETHER

    @property
    def unstored(self) -> list[Alert]:
        """Those that the database may not tell yet as they are."""
        with self._lock:
            return [one.alert for one in self._unstored.values()]

    @property
    def trouble(self) -> str:
        """Why the last of them could not be stored, a sentence; empty: they could."""
        return "" if self._refused is None else why_not_written(self._place, self._refused)

    def keep(self, alert: Alert, rows: Sequence[Notification]) -> Future[None]:
        """The future tells when it is durable, or why it could not be made so for now."""
        done: Future[None] = Future()
        with self._lock:
            waiting = self._unstored.setdefault(alert.id, _Unstored(alert))
            waiting.alert, waiting.is_new = alert, True
            waiting.rows = [*waiting.rows, *rows]
            waiting.futures = [*waiting.futures, done]
        self._write()
        return done

    def try_again(self) -> None:
        """What failed."""
        with self._lock:
            for waiting in self._unstored.values():
                waiting.is_new = True
        self._write()

    def close(self, seconds: float) -> None:
        """Waits so long for what is being written."""
        with self._lock:
            futures = [future for waiting in self._unstored.values() for future in waiting.futures]
        wait(futures, seconds)

    def _write(self) -> None:
        """Hands the next of them to the writer, if none are under way."""
        with self._lock:
            if self._under_way is not None:
                return
            some = [one for one in self._unstored.values() if one.is_new][: self._together]
            if not some:
                return
            written = [_Written(one.alert, tuple(one.rows), tuple(one.futures)) for one in some]
            for one in some:
                one.is_new = False
            done = self._under_way = self._log.errand(lambda connection: _store(connection, written))
        done.add_done_callback(lambda done: self._settle(written, done))

    def _settle(self, written: Sequence[_Written], done: Future[None]) -> None:
        error = done.exception()
        with self._lock:
            self._under_way = None
            self._refused = error if isinstance(error, Exception) else None
            futures = self._stored(written) if error is None else self._failed(written)
        for future in futures:
            future.set_result(None) if error is None else future.set_exception(error)
        self._write()

    def _stored(self, written: Sequence[_Written]) -> list[Future[None]]:
        self._together = min(2 * self._together, MAX_TOGETHER)
        for one in written:
            waiting = self._unstored[one.alert.id]
            del waiting.rows[: len(one.rows)]
            del waiting.futures[: len(one.futures)]
            if waiting.alert is one.alert:
                del self._unstored[one.alert.id]
        return [future for one in written for future in one.futures]

    def _failed(self, written: Sequence[_Written]) -> list[Future[None]]:
        """They come last the next time. Nothing more is tried until then: a database that does not answer would keep
        its writer busy for as long as there are alerts.
        """
        self._together = max(1, len(written) // 2)
        for one in written:
            self._unstored[one.alert.id] = self._unstored.pop(one.alert.id)
        futures = [future for waiting in self._unstored.values() for future in waiting.futures]
        for waiting in self._unstored.values():
            waiting.is_new, waiting.futures = False, []
        return futures


def _store(connection: sa.Connection, written: Sequence[_Written]) -> None:
    store_alerts(connection, [alert_row(one.alert) for one in written])
    store_notifications(connection, [row for one in written for row in one.rows])
