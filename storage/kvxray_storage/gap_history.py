"""What is missing of a source over a stretch of time, whichever epochs it is of."""

from __future__ import annotations

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.history import GapRow


def gaps_between(
    database: Database, source: str, t0_ns: int, t1_ns: int, limit: int
) -> tuple[int, list[tuple[int, GapRow]]]:
    """How many gaps were noticed between two wall times, both included, and the newest `limit` of them with their
    epochs, the newest first; repaired ones included.
    """
    gap, named = models.gap, models.source
    of_source = gap.c.source_id == sa.select(named.c.source_id).where(named.c.name == source).scalar_subquery()
    inside = (of_source, gap.c.at_ns.between(t0_ns, t1_ns))
    columns = (gap.c.wire_seq0, gap.c.wire_seq1, gap.c.seq0, gap.c.seq1, gap.c.at_ns, gap.c.reason, gap.c.repaired_ns)
    newest_first = (gap.c.at_ns.desc(), gap.c.epoch.desc(), gap.c.wire_seq0.desc())
    newest = sa.select(gap.c.epoch, *columns).where(*inside).order_by(*newest_first).limit(limit)
    with database.reading() as connection:
        rows = [(epoch, GapRow(*row)) for epoch, *row in connection.execute(newest)]
        if len(rows) < limit:
            return len(rows), rows
        counted = connection.execute(sa.select(sa.func.count()).select_from(gap).where(*inside)).scalar_one()
    return int(counted), rows
