"""Everything that lives as long as the server: the event log, the sources that are followed, and their live feeds."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping

from kvxray_engine.clock import Clock, SystemClock
from kvxray_storage import history
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.live_feed import LiveFeed
from kvxray_backend.live_state import LiveState
from kvxray_backend.settings import Settings, SourceSpec
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.native import NativeSource
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.sources.replay_desk import Asker
from kvxray_backend.stored_findings import finding_of, row_of

logger = logging.getLogger(__name__)


class Source:
    """One configured source: what it is now, who follows it, who watches."""

    def __init__(self, spec: SourceSpec, live: LiveState, native: NativeSource) -> None:
        self.spec = spec
        self.live = live
        self.native = native
        self.feed = LiveFeed(live)


class Backend:
    """`open`, `start`, and in the end `close`. `sources` is in the order of the settings."""

    def __init__(self, settings: Settings, database: Database, log: EventLog, clock: Clock) -> None:
        self.settings = settings
        self.database = database
        self.log = log
        self.clock = clock
        self.sources: Mapping[str, Source] = {}
        self._started = time.monotonic()

    @classmethod
    def open(
        cls, settings: Settings, clock: Clock | None = None, *, snapshots: bool = True, replay: bool = True
    ) -> Backend:
        """Opens the database and prepares the sources. Raises `UserError`, one sentence, leaving nothing open.

        snapshots, replay: switched off only to see what is shown without them.
        """
        with contextlib.ExitStack() as undo:
            database = open_database(settings.database)
            undo.callback(database.close)
            log = EventLog(database)
            undo.callback(log.close)
            backend = cls(settings, database, log, clock or SystemClock())
            undo.callback(backend._close_sources)
            sources: dict[str, Source] = {}
            backend.sources = sources
            for spec in settings.sources:
                sources[spec.name] = backend._open_source(spec, snapshots=snapshots, replay=replay)
            undo.pop_all()
        return backend

    def start(self) -> None:
        """Begins to follow the sources."""
        for source in self.sources.values():
            source.native.start()

    def close(self) -> None:
        """Stops following, commits what waits, closes the database."""
        self._close_sources()
        if not self.log.close():
            logger.error("The last events could not be stored: %s", self.log.failed or "the database is too slow.")
        self.database.close()

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def num_viewers(self) -> int:
        return sum(source.feed.num_viewers for source in self.sources.values())

    def epoch_key(self, source: str, epoch: int | None) -> EpochKey | None:
        """The key of an epoch in the event log, None: the newest; None when there is no such epoch."""
        rows = history.epochs(self.database, source)
        wanted = [row.key for row in rows if epoch is None or row.epoch == epoch]
        return wanted[-1] if wanted else None

    def _open_source(self, spec: SourceSpec, *, snapshots: bool, replay: bool) -> Source:
        live = LiveState(spec.name)
        archive = Archive(self.database, self.log, self.clock)
        live.epochs = archive.epochs(spec.name)
        live.since_ns = self.clock.wall_ns()
        still_open = [finding_of(row) for row in history.findings(self.database, spec.name, "open")]
        inspector = Inspector(
            live, self.clock, lambda finding: self.log.finding(row_of(finding)), still_open, lambda: self.log.failed
        )
        names = NameFilter(self.database.digest_key())

        def make_follower(asker: Asker) -> Follower:
            return Follower(live, archive, inspector, names, asker, self.clock, snapshots=snapshots, replay=replay)

        return Source(spec, live, NativeSource(spec, make_follower, inspector))

    def _close_sources(self) -> None:
        for source in self.sources.values():
            source.native.close()


def check_can_start(settings: Settings) -> None:
    """Opens everything and closes it again, so that what is the user's to mend is said before the server runs
    (`UserError`).
    """
    Backend.open(settings).close()
