"""How an import hands things to the event log: it waits until they are durable, as long as they can become so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvxray_engine.errors import UserError

from kvxray_storage.database import Database
from kvxray_storage.epoch_folds import REFUSALS
from kvxray_storage.errands import NoWriter, Write
from kvxray_storage.event_log import EventLog
from kvxray_storage.refusals import once, why_not_written

PATIENCE_S: Final = 60.0
"""How long nothing may move before the database counts as too slow."""
_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """All of it raises UserError as soon as the log says that the database takes no writes: whoever imports is there to
    mend that and to begin again, while a log that follows an engine would go on trying.
    """

    database: Database
    log: EventLog

    def until_taken(self, offer: Callable[[], bool]) -> None:
        """offer: False while the log has no room."""
        while not offer():
            self.flush()

    def flush(self) -> None:
        self._wait(lambda: self.log.flush(_LOOK_S))

    def write(self, write: Write) -> None:
        """One transaction, durable when this returns."""
        done = self.log.errand(write)

        def is_done() -> bool:
            try:
                done.result(_LOOK_S)
            except TimeoutError:
                return False
            return True

        try:
            self._wait(is_done)
        except REFUSALS as error:
            raise UserError(once(why_not_written(self.database.place, error))) from error
        except NoWriter as error:
            raise UserError(self.log.failed or f"The event log at {self.database.place} was closed.") from error

    def _wait(self, is_done: Callable[[], bool]) -> None:
        waiting, since = self.log.stats().queue_bytes, time.monotonic()
        while not is_done():
            if self.log.failed is not None:
                raise UserError(once(self.log.failed))
            left, now = self.log.stats().queue_bytes, time.monotonic()
            if left != waiting:
                waiting, since = left, now
            elif now - since > PATIENCE_S:
                raise UserError(f"The database at {self.database.place} is too slow; try again.")
