"""All lanes under one lock: what the watch hands in, what the delivering thread takes out, what the page asks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from kvxray_storage.outbox import Notification, NotificationKind

from kvxray_backend.alert_types import TargetView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.lane import MAX_WAITING, STORED_WAIT_NS, Lane, Muted
from kvxray_backend.delivery.notice import Notice
from kvxray_backend.delivery.outcome import Outcome
from kvxray_backend.delivery.target import Target


class Lanes:
    """Safe to call from any thread; nothing waits for longer than others count."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._lock = threading.Lock()
        self._lanes = {target.name: Lane(target) for target in targets}
        self._firing: dict[str, Alert] = {}
        # By target: what changed and is not durable yet.
        self._unsaved: dict[str, dict[str, Notification]] = {target.name: {} for target in targets}

    def take(self, alert: Alert, kind: NotificationKind, rows: Sequence[Notification], now_ns: int) -> list[str]:
        """Names of targets that are full from now on: theirs waits in the database alone."""
        with self._lock:
            if kind == "fired":
                self._firing[alert.id] = alert
            else:
                self._firing.pop(alert.id, None)
            had_room = [row.target for row in rows if not self._lanes[row.target].is_full]
            for row in rows:
                self._lanes[row.target].put(Notice(row, alert), now_ns + STORED_WAIT_NS)
            return [name for name in had_room if self._lanes[name].is_full]

    def stored(self, rows: Sequence[Notification]) -> None:
        with self._lock:
            for row in rows:
                self._lanes[row.target].stored([row.id])

    def put_stored(self, name: str, notices: Sequence[Notice], *, has_more: bool) -> None:
        """What one target was to be told before a restart, or while its lane was full."""
        with self._lock:
            settled = {row.id for row in self._unsaved[name].values() if not row.waits}
            due = [notice for notice in notices if notice.row.id not in settled]
            self._lanes[name].put_stored(due, has_more=has_more)

    def begin_reading(self, name: str) -> None:
        with self._lock:
            self._lanes[name].begin_reading()

    def wants_stored(self, name: str) -> bool:
        with self._lock:
            lane = self._lanes[name]
            return lane.is_full and len(lane) < MAX_WAITING // 2

    def firing(self, alerts: Sequence[Alert]) -> None:
        with self._lock:
            self._firing = {alert.id: alert for alert in alerts}

    def all_firing(self) -> list[Alert]:
        with self._lock:
            return list(self._firing.values())

    def begin(self, name: str, now_ns: int, muted: Muted) -> list[Notice]:
        """What goes out now."""
        with self._lock:
            lane = self._lanes[name]
            dropped = lane.drop_muted(muted)
            begun = lane.begin(now_ns, muted)
            self._change(name, [*dropped, *(notice.row for notice in begun)])
            return begun

    def settle(self, name: str, outcome: Outcome, now_ns: int) -> None:
        with self._lock:
            self._change(name, self._lanes[name].settle(outcome, now_ns))

    def give_up(self, name: str, rows: Sequence[Notification]) -> None:
        """Rows of alerts that are gone."""
        with self._lock:
            self._change(name, rows)

    def unsaved(self, name: str) -> list[Notification]:
        with self._lock:
            return list(self._unsaved[name].values())

    def saved(self, name: str, rows: Sequence[Notification]) -> None:
        """They are durable; what changed since is not."""
        with self._lock:
            unsaved = self._unsaved[name]
            for row in rows:
                if unsaved.get(row.id) is row:
                    del unsaved[row.id]

    def note(self, name: str, outcome: Outcome, now_ns: int) -> None:
        with self._lock:
            self._lanes[name].note(outcome, now_ns)

    def may_try(self, name: str, now_ns: int) -> bool:
        with self._lock:
            return self._lanes[name].waits_until_ns(now_ns) <= now_ns

    def waiting(self, name: str) -> int:
        with self._lock:
            return len(self._lanes[name])

    def rows_of(self, alert_ids: Sequence[str]) -> list[Notification]:
        """As they stand, of what waits and what is not durable yet."""
        with self._lock:
            rows = {row.id: row for name in alert_ids for lane in self._lanes.values() for row in lane.rows_of(name)}
            for unsaved in self._unsaved.values():
                rows |= {row.id: row for row in unsaved.values() if row.alert_id in alert_ids}
            return list(rows.values())

    def views(self, now_ns: int) -> list[TargetView]:
        with self._lock:
            return [lane.view(now_ns) for lane in self._lanes.values()]

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """By target: notifications delivered, tries that failed, since this began."""
        with self._lock:
            return {name: (lane.num_delivered, lane.num_failed) for name, lane in self._lanes.items()}

    def check_integrity(self) -> None:
        with self._lock:
            for lane in self._lanes.values():
                lane.check_integrity()

    def _change(self, name: str, rows: Sequence[Notification]) -> None:
        self._unsaved[name].update((row.id, row) for row in rows)
