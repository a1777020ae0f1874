"""What all watched engines share: the event log, the key for digests, turns to ask for replay, who reads metrics."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from kvxray_engine.clock import Clock
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.epoch_facts import first_chunk
from kvxray_storage.event_log import EventLog

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.observed.metrics_loop import MetricsLoop
from kvxray_backend.observed.seed_watch import Compared, SeedWatch
from kvxray_backend.observed.stored_before import HashesTold, StoredLife
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.privacy import NameFilter
from kvxray_backend.stored_findings import finding_of, row_of

OnReading = Callable[[str, float, MetricsWatch], object]
"""Gets the engine's name, when its page was (Unix seconds) and all that its pages told, under the engine's lock."""
OnFinding = Callable[[Finding], object]
"""Gets every finding that is stored, new or with what became of it."""


class Surroundings:
    """`digest_key`: of the database, so that what engines told compares across engines and restarts. `on_reading`: who
    is told of each page of metrics, those of the past included, in order of time.
    """

    def __init__(
        self,
        database: Database,
        log: EventLog,
        clock: Clock,
        on_reading: list[OnReading] | None = None,
        on_finding: list[OnFinding] | None = None,
    ) -> None:
        """on_reading, on_finding: may be added to at any time."""
        self.database = database
        self.log = log
        self.clock = clock
        self.digest_key = database.digest_key()
        self.names = NameFilter(self.digest_key)
        self.turns = ReplayTurns()
        self.metrics = MetricsLoop()
        self.seeds = SeedWatch(clock)
        self._is_comparing = False
        self._lock = Lock()
        self.on_reading: list[OnReading] = on_reading if on_reading is not None else []
        self.on_finding: list[OnFinding] = on_finding if on_finding is not None else []

    def compare_seeds(self, name: str, engine: Compared) -> None:
        """From now on, until it leaves `seeds`."""
        self.seeds.join(name, engine)
        with self._lock:
            if not self._is_comparing:
                self._is_comparing = True
                self.metrics.run(self.seeds.run())

    def close(self) -> None:
        self.metrics.close()

    def store(self, finding: Finding) -> None:
        """A new finding, or what became of it."""
        for take in self.on_finding:
            take(finding)
        self.log.finding(row_of(finding))

    def still_open(self, source: str) -> list[Finding]:
        """What is stored as open of a source."""
        return [finding_of(row) for row in history.findings(self.database, source, "open")]

    def end_left_open(self, source: str, first_epoch: int) -> None:
        """Ends what an earlier process left open in epochs of a source before that one: nobody can say more of it."""
        now_ns = self.clock.wall_ns()
        for finding in self.still_open(source):
            if 0 < finding.epoch < first_epoch:
                self.store(finding.ended(now_ns, with_engine=True))

    def stored_until_ns(self, source: str) -> int:
        """The last time that anything stored of a source tells; 0 where there is none."""
        return max((row.last_ns or 0 for row in history.epochs(self.database, source)), default=0)

    def stored_lives(self, source: str) -> list[StoredLife]:
        """What is stored of each life of a source; several epochs where we began again meanwhile."""
        lives: list[StoredLife] = []
        for row in history.epochs(self.database, source):
            if row.first_seq is None or row.last_seq is None:
                continue
            last, told = row.last_seq // EVENTS_OF_BATCH, first_chunk(self.database, row.key)
            begins = [] if told is None else [HashesTold.of(told)]
            if lives and row.first_seq // EVENTS_OF_BATCH > lives[-1].last:
                lives[-1] = StoredLife(last, (*lives[-1].told, *begins))
            else:
                lives.append(StoredLife(last, tuple(begins)))
        return lives
