"""What became of notifications, on its way into the event log: written by the log's writer, waited for a little, and
kept here while the database refuses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import Notification, keep_notifications

WAIT_S: Final = 3.0


class Keeping:
    """Belongs to the thread that delivers; the newest state of a row is the one that is stored."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._unsaved: dict[str, Notification] = {}
        self._tried_at = 0.0

    async def try_again(self) -> None:
        """What could not be stored, if that was a while ago. Raises nothing."""
        if self._unsaved and time.monotonic() - self._tried_at > WAIT_S:
            await self.keep()

    async def keep(self, rows: Sequence[Notification] = ()) -> None:
        """Handed to the writer before anything is waited for. Raises nothing: what was not stored goes along with the
        next, since alerts go out while the database is away.
        """
        self._unsaved.update((row.id, row) for row in rows)
        sent = list(self._unsaved.values())
        if not sent:
            return
        self._tried_at = time.monotonic()
        done: Future[None] = self._log.errand(lambda connection: keep_notifications(connection, sent))
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(done)), WAIT_S)
        # Whatever a database raises.
        except Exception:
            return
        for row in sent:
            if self._unsaved.get(row.id) is row:
                del self._unsaved[row.id]
