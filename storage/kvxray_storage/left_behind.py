"""Epochs that an earlier log may have left before all of them was folded: its process ended while it caught up, and
their sources have lived on since, so that nobody opens them again.

What was folded is told by keyframes only, so each start folds the newest epochs over from their last one: nothing
changes where nothing was missing. Older epochs wait for `kvxray storage rebuild`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.records import EpochKey

NUM_EPOCHS: Final = 3
"""Of each source."""


class LeftBehind:
    """`wanted`: whether they are still to be looked up."""

    def __init__(self, database: Database) -> None:
        self.wanted = False
        self._database = database
        self._keys: deque[EpochKey] = deque()

    def __bool__(self) -> bool:
        return self.wanted or bool(self._keys)

    def first_beside(self, others: Collection[EpochKey]) -> EpochKey | None:
        """The first that is none of the others; None when there is none. Raises what the database does."""
        if self.wanted:
            self._keys.extend(_newest(self._database))
            self.wanted = False
        while self._keys and self._keys[0] in others:
            self._keys.popleft()
        return self._keys[0] if self._keys else None

    def drop_first(self) -> None:
        """It was taken up."""
        self._keys.popleft()


def _newest(database: Database) -> list[EpochKey]:
    """With events that are left; what is just being imported is its importer's."""
    epoch = models.epoch
    place = sa.func.row_number().over(partition_by=epoch.c.source_id, order_by=epoch.c.epoch.desc())
    ranked = (
        sa.select(epoch.c.source_id, epoch.c.epoch, place.label("place"))
        .where(epoch.c.num_chunks > epoch.c.pruned_chunks, epoch.c.importing_ns.is_(None))
        .subquery()
    )
    query = sa.select(ranked.c.source_id, ranked.c.epoch).where(ranked.c.place <= NUM_EPOCHS)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(ranked.c.epoch.desc(), ranked.c.source_id)).all()
    return [EpochKey(*row) for row in rows]
