"""What each target was, or is to be, told of an alert: as stored, or as it stands where that is not stored yet."""

from __future__ import annotations

from collections.abc import Sequence

from kvxray_storage.database import Database
from kvxray_storage.outbox import Notification, notifications_of
from sqlalchemy.exc import SQLAlchemyError

from kvxray_backend.alert_types import ToldView
from kvxray_backend.moments import iso_time_or_none


def told_views(
    database: Database, alert_ids: Sequence[str], waiting: Sequence[Notification]
) -> dict[str, list[ToldView]]:
    """waiting: rows as they stand. While the database cannot be read, what waits is all that is known."""
    try:
        rows = {row.id: row for row in notifications_of(database, alert_ids)}
    except SQLAlchemyError:
        rows = {}
    # What is stored as told is so: the row that waits may be a moment old.
    rows |= {row.id: row for row in waiting if row.id not in rows or rows[row.id].waits}
    told: dict[str, list[ToldView]] = {name: [] for name in alert_ids}
    for row in sorted(rows.values(), key=lambda row: (row.created_ns, row.kind, row.target)):
        told[row.alert_id].append(_view(row))
    return told


def _view(row: Notification) -> ToldView:
    return ToldView(
        target=row.target,
        kind=row.kind,
        delivered=iso_time_or_none(row.delivered_ns),
        attempts=row.attempts,
        error=row.error,
    )
