"""One engine that is watched from outside: its event stream, its metrics, and what both say of its cache now."""

from __future__ import annotations

import threading
import time
from typing import Final, Literal

from kvxray_engine.clock import Clock
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import ONE_PART_OF
from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.metrics.scraper import ScrapeStatus
from kvxray_backend.observed.event_thread import EventThread, Listener
from kvxray_backend.observed.rank_maker import RankMaker
from kvxray_backend.observed.ranks import ObservedRank, ObservedRanks
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_backend.observed.zmq_listener import Steps, ZmqListener, lines_of
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_backend.sources.foreign.token_chains import TokenChains

Connection = Literal["waiting", "connected", "stale", "no_stream"]
INSPECT_EVERY_S: Final = 0.5


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
        self._clock = clock
        self._around = surroundings or Surroundings(database, log, clock)
        self._ranks = ObservedRanks(spec.name, RankMaker(spec, self._around, self.by_tokens))
        self._inspect_at_s = 0.0
        self._thread: EventThread | None = None
        if spec.events:
            lines_of(spec)
            self._thread = EventThread(spec.name, self._listen)

    @property
    def ranks(self) -> dict[str, ObservedRank]:
        """By name of the source, in the order in which they were first heard."""
        return self._ranks.by_name

    def start(self) -> None:
        """Begins to listen and to read metrics."""
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """Stops; what was taken is handed to the event log."""
        if self._thread is not None:
            self._thread.close()

    def _listen(self) -> Listener:
        chains = TokenChains(self._around.digest_key)
        return ZmqListener(self.spec, chains, self._around.turns, self._take, self._advance, self._let_go)

    def _take(self, steps: Steps) -> None:
        with self.lock:
            self._ranks.take(steps)
        self._ranks.flush()

    def _advance(self) -> None:
        """What time alone brings."""
        with self.lock:
            is_busy = self.watch.is_busy if self.watch is not None else None
            for rank in self.ranks.values():
                rank.followed.advance(self._clock.wall_ns(), is_busy=is_busy)
            self.connection = self._state()
            self._inspect()
        self._ranks.flush()

    def _let_go(self) -> None:
        """Nothing is followed any more; what is heard next begins new epochs."""
        with self.lock:
            for rank in self.ranks.values():
                rank.findings.close(rank.followed, self._clock.wall_ns())
            self._ranks.forget()
            self.findings = ()

    def _state(self) -> Connection:
        followed = [rank.followed for rank in self.ranks.values()]
        if not followed:
            return "waiting"
        return "stale" if all(one.confidence == "stale" for one in followed) else "connected"

    def _inspect(self) -> None:
        """Looks for what is wrong, at most twice a second and for at most a tenth of the time."""
        began_s = time.monotonic()
        if began_s < self._inspect_at_s:
            return
        now_ns, failure = self._clock.wall_ns(), self._around.log.failed
        found: list[Finding] = []
        for rank in self.ranks.values():
            found += rank.findings.inspect(rank.followed, failure, rank.log.num_lost, now_ns)
        self.findings = tuple(sorted(found, key=lambda one: (one.time_ns, one.id)))
        spent_s = time.monotonic() - began_s
        self._inspect_at_s = began_s + max(INSPECT_EVERY_S, ONE_PART_OF * spent_s)


__all__ = ["Connection", "ObservedEngine", "ObservedRank"]
