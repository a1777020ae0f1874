"""Alerts, and which rules are on: rows of the log, written by whoever watches, read by whoever asks.

What an alert is about stands in `evidence`, a JSON object that is the backend's to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed
from kvxray_storage.upserts import upsert

AlertRowState = Literal["firing", "over"]
DELETE_AT_ONCE = 500
READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class AlertRow:
    """A later state of the same `id` replaces the earlier. Times are wall ns; `ended_ns` None while it fires."""

    id: str
    rule: str
    engine: str
    severity: str
    state: AlertRowState
    began_ns: int
    fired_ns: int
    ended_ns: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What somebody decided of a rule; `text`: the YAML of one that was written on the page."""

    name: str
    is_on: bool
    text: str | None
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which alerts; what is empty or None is any."""

    state: AlertRowState | None = None
    rule: str = ""
    engine: str = ""
    severity: str = ""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        told = {"state": self.state, "rule": self.rule, "engine": self.engine, "severity": self.severity}
        return [models.alert.c[name] == value for name, value in told.items() if value]


def store_alert(connection: sa.Connection, row: AlertRow) -> None:
    store_alerts(connection, [row])


def store_alerts(connection: sa.Connection, rows: Sequence[AlertRow]) -> None:
    upsert(connection, models.alert, [summed(models.alert, asdict(row)) for row in rows], ["id"])


def alerts(database: Database, wanted: Wanted, limit: int, offset: int = 0) -> list[AlertRow]:
    """The newest first."""
    table = models.alert
    query = sa.select(*_columns()).where(*wanted.conditions())
    query = query.order_by(table.c.fired_ns.desc(), table.c.id).limit(limit).offset(offset)
    with database.reading() as connection:
        return [AlertRow(**row._mapping) for row in connection.execute(query)]


def num_alerts(database: Database, wanted: Wanted) -> int:
    query = sa.select(sa.func.count()).select_from(models.alert).where(*wanted.conditions())
    with database.reading() as connection:
        return int(connection.execute(query).scalar_one())


def alert_of(database: Database, alert_id: str) -> AlertRow | None:
    query = sa.select(*_columns()).where(models.alert.c.id == alert_id)
    with database.reading() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else AlertRow(**row._mapping)


def alerts_of(database: Database, alert_ids: Sequence[str]) -> dict[str, AlertRow]:
    """By id, those that there are."""
    table, found = models.alert, dict[str, AlertRow]()
    for at in range(0, len(alert_ids), READ_AT_ONCE):
        query = sa.select(*_columns()).where(table.c.id.in_(alert_ids[at : at + READ_AT_ONCE]))
        with database.reading() as connection:
            found |= {row.id: AlertRow(**row._mapping) for row in connection.execute(query)}
    return found


def delete_alerts(connection: sa.Connection, before_ns: int) -> int:
    """The oldest few that were over before, with what was told of them; how many."""
    alert, notification = models.alert, models.notification
    over = sa.select(alert.c.id).where(alert.c.state == "over", alert.c.ended_ns < before_ns)
    ids = connection.execute(over.order_by(alert.c.fired_ns).limit(DELETE_AT_ONCE)).scalars().all()
    if ids:
        connection.execute(sa.delete(notification).where(notification.c.alert_id.in_(ids)))
        connection.execute(sa.delete(alert).where(alert.c.id.in_(ids)))
    return len(ids)


def keep_rule(database: Database, row: RuleRow) -> None:
    """Durable when this returns; takes the place of what was decided before."""
    with database.writing() as connection:
        upsert(connection, models.alert_rule, [summed(models.alert_rule, asdict(row))], ["name"])


def forget_rule(database: Database, name: str) -> bool:
    """False when there is none of that name."""
    table = models.alert_rule
    with database.writing() as connection:
        return connection.execute(sa.delete(table).where(table.c.name == name)).rowcount > 0


def kept_rules(database: Database) -> list[RuleRow]:
    """In order of their names."""
    table = models.alert_rule
    query = sa.select(*(table.c[one.name] for one in fields(RuleRow))).order_by(table.c.name)
    with database.reading() as connection:
        return [RuleRow(**row._mapping) for row in connection.execute(query)]


def _columns() -> list[sa.Column[object]]:
    return [models.alert.c[one.name] for one in fields(AlertRow)]
