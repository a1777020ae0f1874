"""What became of notifications, on its way into the event log: written by the log's writer, waited for a little where
that matters, and kept here while the database refuses.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import Notification, keep_notifications

from kvxray_backend.delivery.lanes import Lanes

WAIT_S: Final = 3.0


class Keeping:
    """Of one target. Belongs to the thread that delivers; the newest state of a row is the one that is stored, and one
    write is under way at a time.
    """

    def __init__(self, log: EventLog, lanes: Lanes, name: str) -> None:
        self._log = log
        self._lanes = lanes
        self._name = name
        self._tried_at = 0.0
        self._failed = False
        # Waited for in vain: until the database has answered nobody waits again, else each POST would.
        self._is_slow = False
        self._under_way: tuple[list[Notification], Future[None]] | None = None

    async def keep(self, *, waits: bool) -> None:
        """Handed to the writer before anything is waited for. waits: until what there is now is durable, for a few
        seconds at most. Raises nothing: what was not stored goes along with the next, since alerts go out while the
        database is away.
        """
        until = time.monotonic() + (WAIT_S if waits and not self._is_slow else 0.0)
        await self._settle(until)
        if self._under_way is None and self._hand_over():
            await self._settle(until)

    def _hand_over(self) -> bool:
        rows = self._lanes.unsaved(self._name)
        is_early = self._failed and time.monotonic() - self._tried_at < WAIT_S
        if not rows or is_early:
            return False
        self._tried_at = time.monotonic()
        self._under_way = rows, self._log.errand(lambda connection: keep_notifications(connection, rows))
        return True

    async def _settle(self, until: float) -> None:
        if self._under_way is None:
            return
        rows, done = self._under_way
        seconds = until - time.monotonic()
        if not done.done() and seconds > 0:
            # What it comes to is looked at below, whatever a database raises.
            with suppress(Exception):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(done)), seconds)
            self._is_slow = not done.done()
        if not done.done():
            return
        self._under_way = None
        self._failed = done.exception() is not None
        if not self._failed:
            self._is_slow = False
            self._lanes.saved(self._name, rows)
