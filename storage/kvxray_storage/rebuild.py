"""Makes everything that was folded anew from the chunks: periodic keyframes and rollups. The result is the same.

Rollups of chunks that are gone stay as they are. Where it stops half-way, the next writer of the epoch goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import sqlalchemy as sa

from kvxray_storage.catch_up import CatchUp
from kvxray_storage.database import Database
from kvxray_storage.records import EpochKey

SLICE_S: Final = 0.5


def rebuild(
    database: Database,
    key: EpochKey,
    *,
    writing: Callable[[], AbstractContextManager[sa.Connection]] | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Nobody else may write to the epoch meanwhile: hold the writer's claim, and give transactions that confirm it.

    progress: called now and then with the number of the next event.
    """
    catch_up = CatchUp(database, key, writing or database.writing)
    catch_up.begin_anew()
    while not catch_up.run(SLICE_S):
        if progress is not None and catch_up.fold is not None:
            progress(catch_up.fold.next_seq)
