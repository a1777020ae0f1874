"""What became of notifications, on its way into the event log: written by the log's writer, waited for a little, and
kept here while the database refuses.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Final

from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import keep_notifications

from kvxray_backend.delivery.lanes import Lanes

WAIT_S: Final = 3.0


class Keeping:
    """Of one target. Belongs to the thread that delivers; the newest state of a row is the one that is stored."""

    def __init__(self, log: EventLog, lanes: Lanes, name: str) -> None:
        self._log = log
        self._lanes = lanes
        self._name = name
        self._tried_at = 0.0
        self._failed = False

    async def keep(self) -> None:
        """Handed to the writer before anything is waited for. Raises nothing: what was not stored goes along with the
        next, since alerts go out while the database is away.
        """
        rows = self._lanes.unsaved(self._name)
        is_early = self._failed and time.monotonic() - self._tried_at < WAIT_S
        if not rows or is_early:
            return
        self._tried_at = time.monotonic()
        done: Future[None] = self._log.errand(lambda connection: keep_notifications(connection, rows))
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(done)), WAIT_S)
        # Whatever a database raises.
        except Exception:
            self._failed = True
            return
        self._failed = False
        self._lanes.saved(self._name, rows)
