"""Where a source's past is kept: opens the history of an epoch, and tells what earlier ones left."""

from __future__ import annotations

from kvxray_engine.clock import Clock
from kvxray_engine.stream.block_map import BlockMap
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.live_state import EpochSpan
from kvxray_backend.sources.epoch_history import EpochHistory


class Archive:
    """The event log as the sources see it."""

    def __init__(self, database: Database, log: EventLog, clock: Clock) -> None:
        self._database = database
        self._log = log
        self._clock = clock

    def open_epoch(self, source: str, block_map: BlockMap) -> EpochHistory:
        """The history of the incarnation that `block_map` follows: a new one, or what is stored of it goes on."""
        descriptor, wall_ns = block_map.descriptor, self._clock.wall_ns()
        labels = dict(descriptor.labels)
        key = self._log.open_epoch(source, labels, block_map.incarnation, descriptor, wall_ns)
        gaps = history.count_gaps(self._database, key)
        return EpochHistory(self._log, self._clock, key, self._log.cursor(key), gaps)

    def epochs(self, source: str) -> tuple[EpochSpan, ...]:
        """All stored epochs of a source, oldest first."""
        return tuple(
            EpochSpan(
                row.epoch, row.incarnation, row.started_ns, row.ended_ns, row.first_seq, row.last_seq, row.is_unfinished
            )
            for row in history.epochs(self._database, source)
        )
