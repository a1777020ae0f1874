"""Everything that lives as long as the server: the event log, the sources that are followed, and their live feeds."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kvxray_engine.clock import Clock, SystemClock
from kvxray_storage import history
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey
from kvxray_storage.retention_keeper import RetentionKeeper

from kvxray_backend.alerts.alert_watch import AlertWatch
from kvxray_backend.alerts.links import page_link, whole_link
from kvxray_backend.alerts.recent_findings import RecentFindings
from kvxray_backend.alerts.rule_book import RuleBook
from kvxray_backend.alerts.trial_desk import TrialDesk
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.delivery.delivery import Delivery
from kvxray_backend.live_feed import LiveFeed
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Moment
from kvxray_backend.observed.attaching import Attaching
from kvxray_backend.observed.connection_test import ConnectionTests
from kvxray_backend.observed.registry import ObservedEngines
from kvxray_backend.past import PastStates
from kvxray_backend.retention_rules import retention_of, signal_age_s
from kvxray_backend.settings import Settings, SourceSpec
from kvxray_backend.signal_history import SignalHistory
from kvxray_backend.sources.archive import Archive
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.native import NativeSource
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.sources.replay_desk import Asker
from kvxray_backend.stored_findings import finding_of, row_of
from kvxray_backend.stored_source import last_state, stored_names

COMMIT_WAIT_S: Final = 2.0

logger = logging.getLogger(__name__)


class Source:
    """One source: what it is now, who follows it, who watches. One that is only stored has no `spec` and nobody follows
    it; what it was in the end is read when it is first asked for.
    """

    def __init__(
        self, make_live: Callable[[], LiveState], spec: SourceSpec | None, native: NativeSource | None
    ) -> None:
        self.spec = spec
        self.native = native
        self._make_live = make_live
        self._lock = threading.Lock()
        self._live: LiveState | None = None
        self._feed: LiveFeed | None = None

    @property
    def live(self) -> LiveState:
        with self._lock:
            if self._live is None:
                self._live = self._make_live()
            return self._live

    @property
    def feed(self) -> LiveFeed:
        live = self.live
        with self._lock:
            if self._feed is None:
                self._feed = LiveFeed(live)
            return self._feed

    def prepare(self) -> None:
        """Reads what must be read before `live` and `feed` cost nothing."""
        assert self.feed is not None, "there is a feed of everything"

    @property
    def num_viewers(self) -> int:
        return self._feed.num_viewers if self._feed is not None else 0

    async def close_feed(self) -> None:
        if self._feed is not None:
            await self._feed.close()


class Backend:
    """`open`, `start`, and in the end `close`. `sources` is in the order of the settings, then those that are only
    stored; `observed` are engines of others.
    """

    def __init__(self, settings: Settings, database: Database, log: EventLog, clock: Clock) -> None:
        self.settings = settings
        self.database = database
        self.log = log
        self.clock = clock
        self.sources: Mapping[str, Source] = {}
        self.observed = ObservedEngines(database, log, clock, lambda name: name in self.sources)
        self.signals = SignalHistory(database, log, signal_age_s(settings))
        self.observed.on_reading.append(self.signals.take)
        self.recent_findings = RecentFindings()
        self.observed.on_finding.append(self.recent_findings.note)
        rules = RuleBook(database, clock, settings.rules)
        self.delivery = Delivery(
            settings,
            database,
            log,
            clock,
            link=lambda alert: whole_link(settings, page_link(alert)),
            rule_of=rules.rule_of,
        )
        self.alerts = AlertWatch(self, rules, self.delivery)
        self.trials = TrialDesk(database, self.signals.between)
        self.attaching = Attaching(settings.engines, settings.observe, self.observed, database, clock)
        self.connection_tests = ConnectionTests()
        self.past = PastStates(database)
        self.keeper = RetentionKeeper(database, log, retention_of(settings), self.clock.wall_ns)
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
            for name in stored_names(database):
                sources.setdefault(name, Source(partial(last_state, database, backend.past, name), None, None))
            backend.attaching.check()
            backend.alerts.rule_book.check()
            undo.pop_all()
        return backend

    def start(self) -> None:
        """Begins to follow the sources."""
        self.keeper.start()
        for source in self._followed():
            source.start()
        self.attaching.start()
        self.delivery.start()
        self.alerts.start()
        self.log.look_back()

    def close(self) -> None:
        """Stops following, commits what waits, closes the database."""
        self.alerts.close()
        self.delivery.close()
        self._close_sources()
        # Retention goes after the log, whose last commits may need room.
        if not self.log.close():
            logger.error("The last events could not be stored: %s", self.log.failed or "the database is too slow.")
        self.keeper.close()
        self.database.close()

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    @property
    def num_viewers(self) -> int:
        return sum(source.num_viewers for source in self.sources.values())

    def past_at(self, source: Source, moment: Moment) -> LiveState:
        """The state of a source after a past moment. Raises `NotStored`."""
        self.settle(source, moment)
        return self.past.at(source.live.source, moment)

    def settle(self, source: Source, moment: Moment) -> None:
        """Waits a moment for what has happened by then, but is perhaps not committed yet."""
        live, point = source.live, moment.point
        is_fresh = point is not None and point.epoch == live.epoch and point.seq > self._committed_seq(live.source)
        if is_fresh or (moment.t_ns or 0) > live.state_ns - int(COMMIT_WAIT_S * 1e9):
            self.log.flush(COMMIT_WAIT_S)

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
        inspector = Inspector(live, self.clock, self._take_finding, still_open, lambda: self.log.failed)
        names = NameFilter(self.database.digest_key())

        def make_follower(asker: Asker) -> Follower:
            return Follower(live, archive, inspector, names, asker, self.clock, snapshots=snapshots, replay=replay)

        return Source(lambda: live, spec, NativeSource(spec, make_follower, inspector))

    def _take_finding(self, finding: Finding) -> None:
        self.recent_findings.note(finding)
        self.log.finding(row_of(finding))

    def _committed_seq(self, source: str) -> int:
        rows = history.epochs(self.database, source)
        return (rows[-1].last_seq or -1) if rows else -1

    def _close_sources(self) -> None:
        self.attaching.close()
        self.observed.close()
        self.signals.close()
        for source in self._followed():
            source.close()

    def _followed(self) -> list[NativeSource]:
        return [source.native for source in self.sources.values() if source.native is not None]


def check_can_start(settings: Settings) -> None:
    """Opens everything and closes it again, so that what is the user's to mend is said before the server runs
    (`UserError`).
    """
    Backend.open(settings).close()
