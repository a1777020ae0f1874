"""One engine that is watched from outside: its event stream, its metrics, and what both say of its cache now."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final, Literal

from kvxray_engine.clock import Clock
from kvxray_storage.database import OPENING_ERRORS, Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import ONE_PART_OF
from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.analysis.stream_findings import Work
from kvxray_backend.metrics.configuration import Configuration
from kvxray_backend.metrics.scraper import MISSED_BEFORE_STALE, Scrape, ScrapeStatus
from kvxray_backend.observed.engine_findings import EngineFindings, Unreadable
from kvxray_backend.observed.event_thread import EventThread
from kvxray_backend.observed.hearing import check_address, listener_to
from kvxray_backend.observed.listener import Consumer, Listener, Steps
from kvxray_backend.observed.metrics_reading import MetricsReading
from kvxray_backend.observed.rank_maker import RankMaker
from kvxray_backend.observed.ranks import ObservedRank, ObservedRanks
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_backend.sources.foreign.pages_and_events import tell_capacity

Connection = Literal["waiting", "connected", "stale", "no_stream"]
INSPECT_EVERY_S: Final = 0.5

logger = logging.getLogger(__name__)


class ObservedEngine:
    """Followed from `start` to `close`. `lock` guards everything that is read of it: hold it while the parts must
    belong together, and briefly.
    """

    def __init__(
        self,
        spec: ObserveSpec,
        database: Database,
        log: EventLog,
        clock: Clock,
        surroundings: Surroundings | None = None,
    ) -> None:
        """surroundings: shared with other engines; None: its own. Raises `UserError` for an endpoint that cannot be."""
        self.spec = spec
        self.lock = threading.RLock()
        self.watch: MetricsWatch | None = None
        self.metrics_status = ScrapeStatus()
        self.connection: Connection = "waiting" if spec.events else "no_stream"
        self.since_ns = clock.wall_ns()
        self.findings: tuple[Finding, ...] = ()
        self.by_tokens = HashesByTokens()
        self.seed_findings: tuple[Finding, ...] = ()
        self._is_behind = False
        self._clock = clock
        self._owns_surroundings = surroundings is None
        self._around = surroundings or Surroundings(database, log, clock)
        self._ranks = ObservedRanks(spec.name, RankMaker(spec, self._around, self.by_tokens))
        self._engine_findings = EngineFindings(spec.name, self._around.store)
        self._inspect_at_s = 0.0
        self._listener: Listener | None = None
        self._thread: EventThread | None = None
        self._reading: Future[None] | None = None
        if spec.events:
            check_address(spec)
            self._thread = EventThread(spec.name, self._listen)

    @property
    def ranks(self) -> dict[str, ObservedRank]:
        """By name of the source, in the order in which they were first heard."""
        return self._ranks.by_name

    @property
    def trouble(self) -> str:
        """Why no events can be heard, one sentence; empty: nothing is known to be wrong."""
        listener = self._listener
        return listener.trouble if listener is not None else ""

    @property
    def num_dropped(self) -> int:
        """Batches that came faster than they were understood, since the stream was joined."""
        listener = self._listener
        return listener.num_dropped if listener is not None else 0

    def start(self) -> None:
        """Begins to listen and to read metrics."""
        self._take_over()
        if self._thread is not None:
            self._thread.start()
            self._around.compare_seeds(self.spec.name, self)
        if self.spec.metrics is not None or self.spec.prometheus is not None:
            with self.lock:
                self.watch = MetricsWatch(self.spec.name)
            reading = MetricsReading(self.spec, self._take_page, self._tell_metrics, self._take_configuration)
            self._reading = self._around.metrics.run(reading.run())

    def close(self) -> None:
        """Stops; what was taken is handed to the event log."""
        if self._reading is not None:
            self._reading.cancel()
        if self._thread is not None:
            self._around.seeds.leave(self.spec.name)
            self._thread.close()
        with self.lock:
            self._engine_findings.close(self._clock.wall_ns())
        if self._owns_surroundings:
            self._around.close()

    def _take_over(self) -> None:
        try:
            still_open = self._around.still_open(self.spec.name)
        except OPENING_ERRORS as error:
            logger.warning("What was open of %s is not ended: %s", self.spec.name, error)
            return
        self._engine_findings.take_over(still_open, self._clock.wall_ns())

    def _listen(self) -> Listener:
        consumer = Consumer(self._take, self._advance, self._let_go)
        self._listener = listener_to(self.spec, self._around, consumer)
        return self._listener

    def _take(self, steps: Steps) -> None:
        for origin in self._ranks.unknown(steps):
            rank = self._ranks.made(origin)
            with self.lock:
                self._ranks.meet(origin, rank)
        with self.lock:
            self._ranks.take(steps)
            self._is_behind = True
        self._ranks.flush()

    def _advance(self) -> None:
        """What time alone brings."""
        with self.lock:
            work, now_ns = self._work(), self._heard_until_ns()
            for rank in self.ranks.values():
                rank.followed.advance(now_ns, work=work)
            self.connection = self._state()
        if time.monotonic() >= self._inspect_at_s:
            self._inspect()
        self._ranks.flush()

    def _heard_until_ns(self) -> int:
        """Up to when it is known what was told: now, but while more may wait to be taken the newest that was taken. Our
        own delay is no silence of the engine.
        """
        is_behind, self._is_behind = self._is_behind or (self._listener is not None and self._listener.is_behind), False
        newest = max((rank.followed.last_heard_ns or 0 for rank in self.ranks.values()), default=0)
        return newest if is_behind and newest else self._clock.wall_ns()

    def _let_go(self) -> None:
        """Nothing is followed any more; what is heard next begins new epochs."""
        with self.lock:
            for rank in self.ranks.values():
                rank.findings.close(rank.followed, self._clock.wall_ns())
            self._ranks.forget()
            self.findings = ()
            self._listener = None

    def _take_page(self, scrape: Scrape) -> None:
        with self.lock:
            assert self.watch is not None, "pages come after the start"
            if self.watch.lies_ahead(scrape.at_s, self._clock.wall_ns() / 1e9):
                self.watch = self.watch.begun_anew()
            self.watch.take(scrape.at_s, scrape.page, scrape.reading)
            for take in self._around.on_reading:
                take(self.spec.name, scrape.at_s, self.watch)
        if self._thread is None and time.monotonic() >= self._inspect_at_s:
            self._inspect()

    def _take_configuration(self, configuration: Configuration) -> None:
        with self.lock:
            assert self.watch is not None, "it comes after the start"
            self.watch.take_configuration(configuration)

    def _tell_metrics(self, status: ScrapeStatus) -> None:
        self.metrics_status = status

    def _work(self) -> Work | None:
        """None: metrics do not say, or what they said is old."""
        if self.watch is None or self.metrics_status.num_failures >= MISSED_BEFORE_STALE:
            return None
        return self.watch.work

    def _state(self) -> Connection:
        followed = [rank.followed for rank in self.ranks.values()]
        if not followed:
            # One that only decodes has no cache of prefixes to tell of: its silence is no fault.
            return "no_stream" if self.spec.role == "decode" else "waiting"
        return "stale" if all(one.confidence == "stale" for one in followed) else "connected"

    def _inspect(self) -> None:
        """Looks for what is wrong, at most twice a second and for at most a tenth of the time.

        The long look at all that is cached needs no lock: nobody else changes it than the thread that is here.
        """
        began_s, now_ns = time.monotonic(), self._clock.wall_ns()
        with self.lock:
            if self.spec.num_blocks is None:
                tell_capacity(self.watch, [rank.followed for rank in self.ranks.values()])
        states = {rank.name: rank.followed.state_findings() for rank in self.ranks.values()}
        with self.lock:
            self.findings = self._found(states, now_ns)
        spent_s = time.monotonic() - began_s
        self._inspect_at_s = began_s + max(INSPECT_EVERY_S, ONE_PART_OF * spent_s)

    def _found(self, states: Mapping[str, list[Finding]], now_ns: int) -> tuple[Finding, ...]:
        """All that is open; states: by source, what is wrong with what is cached."""
        failure = self._around.log.failed
        found: list[Finding] = []
        for rank in self.ranks.values():
            found += rank.findings.inspect(rank.followed, states[rank.name], failure, rank.log.num_lost, now_ns)
        unreadable = self._listener.unreadable if self._listener is not None else Unreadable()
        followed = [rank.followed for rank in self.ranks.values()]
        found += self._engine_findings.inspect(self.watch, followed, found, self.seed_findings, unreadable, now_ns)
        return tuple(sorted(found, key=lambda one: (one.time_ns, one.id)))


__all__ = ["Connection", "ObservedEngine", "ObservedRank"]
