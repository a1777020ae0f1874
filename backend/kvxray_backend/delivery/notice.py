"""One thing to tell one target: a row of the outbox with the alert that it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from kvxray_storage.outbox import Notification, NotificationKind

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.target import Target


@dataclass(frozen=True, slots=True)
class Notice:
    """Invariant: `alert` is the one that `row` names."""

    row: Notification
    alert: Alert

    @property
    def alert_then(self) -> Alert:
        """The alert as it stood: of one that fired nothing is said of its end."""
        if self.row.kind == "over" or self.alert.state == "firing":
            return self.alert
        return self.alert.model_copy(update={"state": "firing", "ended_ns": None, "over_because": ""})


def rows_for(targets: Sequence[Target], alert: Alert, kind: NotificationKind, now_ns: int) -> list[Notification]:
    """What is to be told of it, a row for each target that hears of such alerts. Its id is the same whenever asked."""
    return [
        Notification(f"{alert.id}:{kind}:{target.name}", target.name, alert.id, kind, now_ns, now_ns)
        for target in targets
        if target.hears_of(alert.severity)
    ]


def delivery_id(ids: Sequence[str]) -> str:
    """Of the POST that tells these: the same however often it is tried."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:32]
