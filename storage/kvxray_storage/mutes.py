"""Mutes: nobody is notified of a rule, or of an engine, until a time that somebody chose."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.row_sums import summed
from kvxray_storage.server_session import storable


@dataclass(frozen=True, slots=True)
class Mute:
    """`rule`, `engine`: empty is any. Times are wall ns."""

    id: str
    rule: str
    engine: str
    until_ns: int
    note: str
    created_ns: int

    def covers(self, rule: str, engine: str, now_ns: int) -> bool:
        return now_ns < self.until_ns and self.rule in ("", rule) and self.engine in ("", engine)


def keep_mute(database: Database, mute: Mute) -> Mute:
    """Durable when this returns; those that were over when it was made go."""
    table = models.mute
    kept = replace(mute, rule=storable(mute.rule), engine=storable(mute.engine), note=storable(mute.note))
    with database.writing() as connection:
        connection.execute(sa.delete(table).where(table.c.until_ns <= kept.created_ns))
        connection.execute(sa.insert(table), [summed(table, asdict(kept))])
    return kept


def forget_mute(database: Database, mute_id: str) -> bool:
    """False when there is none of that id."""
    table = models.mute
    with database.writing() as connection:
        return connection.execute(sa.delete(table).where(table.c.id == mute_id)).rowcount > 0


def mutes(database: Database, now_ns: int) -> list[Mute]:
    """Those that are not over, the newest first."""
    table = models.mute
    query = sa.select(*(table.c[one.name] for one in fields(Mute))).where(table.c.until_ns > now_ns)
    with database.reading() as connection:
        found = connection.execute(query.order_by(table.c.created_ns.desc(), table.c.id))
        return [Mute(**row._mapping) for row in found]
