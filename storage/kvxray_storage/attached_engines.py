"""Engines that were attached while the server ran: kept in the database, so that it watches them after a restart too.

What describes an engine is a JSON object, whose fields are the backend's to know.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed


@dataclass(frozen=True, slots=True)
class AttachedEngine:
    """`spec`: JSON. `created_ns`: wall ns."""

    name: str
    spec: str
    created_ns: int


def keep_attached(database: Database, engine: AttachedEngine) -> None:
    """Durable when this returns; takes the place of one of the same name."""
    table = models.attached_engine
    row = {"name": engine.name, "spec": engine.spec, "created_ns": engine.created_ns}
    with database.writing() as connection:
        connection.execute(sa.delete(table).where(table.c.name == engine.name))
        connection.execute(sa.insert(table), [summed(table, row)])


def forget_attached(database: Database, name: str) -> bool:
    """False when there is none of that name."""
    table = models.attached_engine
    with database.writing() as connection:
        return connection.execute(sa.delete(table).where(table.c.name == name)).rowcount > 0


def attached_engines(database: Database) -> list[AttachedEngine]:
    """In the order in which they were attached."""
    table = models.attached_engine
    query = sa.select(table.c.name, table.c.spec, table.c.created_ns).order_by(table.c.created_ns, table.c.name)
    with database.reading() as connection:
        return [AttachedEngine(**row._mapping) for row in connection.execute(query)]
