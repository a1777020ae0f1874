"""One engine that is watched from outside: its event stream, its metrics, and what both say of its cache now."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from kvxray_engine.clock import Clock
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.live_tail import LiveTail
from kvxray_backend.metrics.scraper import ScrapeStatus
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

Connection = Literal["waiting", "connected", "stale", "no_stream"]


@dataclass(slots=True)
class ObservedRank:
    """One source: an engine, or one data-parallel rank of it. `epoch`: its number in the event log."""

    name: str
    rank: int | None
    followed: FollowedSource
    tail: LiveTail
    epoch: int | None = None


class ObservedEngine:
    """Followed from `start` to `close`. `lock` guards everything that is read of it: hold it while the parts must
    belong together, and briefly.
    """

    def __init__(self, spec: ObserveSpec, database: Database, log: EventLog, clock: Clock) -> None:
        """Raises `UserError` for an endpoint that cannot be."""
        self.spec = spec
        self.lock = threading.RLock()
        self.ranks: dict[str, ObservedRank] = {}
        self.watch: MetricsWatch | None = None
        self.metrics_status = ScrapeStatus()
        self.connection: Connection = "waiting" if spec.events else "no_stream"
        self.since_ns = clock.wall_ns()
        self.findings: tuple[Finding, ...] = ()

    def start(self) -> None:
        """Begins to listen and to read metrics."""

    def close(self) -> None:
        """Stops; what was taken is handed to the event log."""
