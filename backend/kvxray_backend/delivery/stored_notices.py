"""What waited when the last kvxray ended: rows of the outbox with their alerts, read from the event log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvxray_storage.alerts import AlertRow, alerts_of
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import Database
from kvxray_storage.outbox import NEVER_NS, Notification, waiting_notifications

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_rows import alert_of_row
from kvxray_backend.delivery.notice import Notice


def read_notices(
    database: Database, targets: Sequence[str], limit: int
) -> tuple[list[Notice], list[Notification], bool]:
    """Those that wait, in order; those that are given up, since their alert is gone; and whether there are more. Raises
    what the database raises.
    """
    rows = waiting_notifications(database, targets, limit)
    known = {id: _alert(row) for id, row in alerts_of(database, [*{row.alert_id for row in rows}]).items()}
    found = [(row, known.get(row.alert_id)) for row in rows]
    notices = [Notice(row, alert) for row, alert in found if alert is not None]
    lost = [replace(row, due_ns=NEVER_NS, error=_LOST) for row, alert in found if alert is None]
    return notices, lost, len(rows) == limit


_LOST = "The alert is not stored any more, or cannot be read."


def _alert(row: AlertRow) -> Alert | None:
    try:
        return alert_of_row(row)
    except DamagedChunk:
        return None
