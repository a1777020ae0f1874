"""What targets are to be told of alerts, kept until it is told: written with the alert, read again after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed
from kvxray_storage.upserts import insert_new, upsert

NotificationKind = Literal["fired", "over"]

NEVER_NS: Final = 2**63 - 1
"""When it is due that was given up."""


@dataclass(frozen=True, slots=True)
class Notification:
    """That an alert `fired`, or is `over`, for one target. Times are wall ns; it waits while `delivered_ns` is None and
    `due_ns` is not NEVER_NS. `delivery`: what it was sent with and may have arrived by, empty: nothing.
    """

    id: str
    target: str
    alert_id: str
    kind: NotificationKind
    created_ns: int
    due_ns: int
    attempts: int = 0
    delivered_ns: int | None = None
    error: str = ""
    delivery: str = ""

    @property
    def waits(self) -> bool:
        return self.delivered_ns is None and self.due_ns != NEVER_NS


def store_notifications(connection: sa.Connection, rows: Sequence[Notification]) -> None:
    """Those that are not there yet: in the transaction that stores their alert. Repeatable."""
    insert_new(connection, models.notification, [_row(one) for one in rows])


def keep_notifications(connection: sa.Connection, rows: Sequence[Notification]) -> None:
    """What became of them. One that could not be stored when it was made is stored now."""
    upsert(connection, models.notification, [_row(one) for one in rows], ["id"])


def waiting_notifications(database: Database, targets: Sequence[str], limit: int) -> list[Notification]:
    """The oldest that wait for one of the targets. No `over` comes before the `fired` of its alert."""
    table = models.notification
    here = (table.c.delivered_ns.is_(None), table.c.due_ns < NEVER_NS, table.c.target.in_(targets))
    query = sa.select(*_columns()).where(*here).order_by(table.c.created_ns, table.c.kind, table.c.id).limit(limit)
    with database.reading() as connection:
        return in_order([Notification(**row._mapping) for row in connection.execute(query)])


def notifications_of(database: Database, alert_ids: Sequence[str]) -> list[Notification]:
    """All that was, or is to be, told of these alerts, the oldest first."""
    table = models.notification
    query = sa.select(*_columns()).where(table.c.alert_id.in_(alert_ids))
    query = query.order_by(table.c.created_ns, table.c.kind, table.c.id)
    with database.reading() as connection:
        return [Notification(**row._mapping) for row in connection.execute(query)]


def in_order(rows: Sequence[Notification]) -> list[Notification]:
    """The oldest first, the same however they come; a clock that was set back brings no end before its beginning."""
    fired_ns = {(row.target, row.alert_id): row.created_ns for row in rows if row.kind == "fired"}

    def place(row: Notification) -> tuple[int, str, str]:
        return max(row.created_ns, fired_ns.get((row.target, row.alert_id), 0)), row.kind, row.id

    return sorted(rows, key=place)


def _row(one: Notification) -> dict[str, object]:
    return summed(models.notification, asdict(one))


def _columns() -> list[sa.Column[object]]:
    return [models.notification.c[one.name] for one in fields(Notification)]
