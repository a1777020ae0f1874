"""The engines that are watched from outside, by name: attached and detached while the server runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.observed.bound_ports import check_can_listen
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.origin import Origin, check_origin
from kvxray_backend.observed.problems import Problem, Problems
from kvxray_backend.observed.ranks import ObservedRank
from kvxray_backend.observed.spec import BadSpec, ObserveSpec
from kvxray_backend.observed.surroundings import OnFinding, OnReading, Surroundings
from kvxray_backend.source_name import engine_of

MAX_ENGINES: Final = 256
MAX_CLOSING: Final = 32

logger = logging.getLogger(__name__)


class NameTaken(BadSpec):
    """Another engine, or a source of ours, has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is an engine {name!r} already; give this one another name.", "name")


class ObservedEngines:
    """Safe to call from any thread. `origin_of`: who attached an engine; `problems`: why others are not watched;
    `on_reading`: who is told of each page of metrics; `on_finding`: of each finding.
    """

    def __init__(
        self,
        database: Database,
        log: EventLog,
        clock: Clock,
        is_taken: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """is_taken: whether a name is that of a source of another kind."""
        self._database, self._log, self._clock = database, log, clock
        self._around: Surroundings | None = None
        # Whoever is to be told of each page of metrics is in here before the first engine is attached.
        self.on_reading: list[OnReading] = []
        self.on_finding: list[OnFinding] = []
        self._is_taken = is_taken
        self._lock = threading.Lock()
        self._engines: dict[str, ObservedEngine] = {}
        self._origins: dict[str, Origin] = {}
        self._coming: set[str] = set()
        self._is_closed = False
        self.troubles = Problems()

    @property
    def all(self) -> list[ObservedEngine]:
        """In the order in which they were attached."""
        with self._lock:
            return list(self._engines.values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.troubles.all

    def get(self, name: str) -> ObservedEngine | None:
        return self._engines.get(name)

    def origin_of(self, name: str) -> Origin:
        """Raises KeyError where nobody watches it (any more)."""
        return self._origins[name]

    def rank(self, source: str) -> tuple[ObservedEngine, ObservedRank | None] | None:
        """The engine that a source is of, and the source itself; an engine's own name is also that of its first rank,
        which may not have been heard yet. None: nobody watches it.
        """
        engine = self._engines.get(engine_of(source))
        if engine is None:
            return None
        rank = engine.ranks.get(source)
        return (engine, rank) if rank is not None or engine.spec.name == source else None

    def attach(self, spec: ObserveSpec, origin: Origin) -> ObservedEngine:
        """Begins to watch. Raises `UserError`, one sentence; `NameTaken` where the name is the reason."""
        check_origin(spec, origin)
        self._reserve(spec.name)
        try:
            engine = self._started(spec)
            with self._lock:
                is_late = self._is_closed
                if not is_late:
                    self._engines[spec.name], self._origins[spec.name] = engine, origin
        finally:
            with self._lock:
                self._coming.discard(spec.name)
        if is_late:
            engine.close()
            raise UserError("The server is stopping.")
        return engine

    def detach(self, name: str) -> bool:
        """Stops watching; what was stored stays. False: there is no such engine."""
        with self._lock:
            engine = self._engines.pop(name, None)
            self._origins.pop(name, None)
        if engine is not None:
            engine.close()
        return engine is not None

    def detach_all(self, names: Sequence[str]) -> None:
        """Side by side: each waits for its threads to end, and hundreds may go at once."""
        if not names:
            return
        with ThreadPoolExecutor(min(len(names), MAX_CLOSING), thread_name_prefix="kvxray-detaching") as pool:
            for name, ended in [(name, pool.submit(self.detach, name)) for name in names]:
                if (error := ended.exception()) is not None:
                    logger.error("%s was not closed well.", name, exc_info=error)

    def close(self) -> None:
        """Detaches all; nothing is attached any more."""
        with self._lock:
            self._is_closed = True
        self.detach_all([engine.spec.name for engine in self.all])
        if self._around is not None:
            self._around.close()

    def _started(self, spec: ObserveSpec) -> ObservedEngine:
        with self._lock:
            if self._around is None:
                self._around = Surroundings(self._database, self._log, self._clock, self.on_reading, self.on_finding)
        check_can_listen(spec)
        engine = ObservedEngine(spec, self._database, self._log, self._clock, self._around)
        try:
            engine.start()
        except BaseException:
            engine.close()
            raise
        return engine

    def _reserve(self, name: str) -> None:
        """So that sockets are opened outside the lock, and not twice."""
        with self._lock:
            if self._is_closed:
                raise UserError("The server is stopping.")
            if name in self._engines or name in self._coming or self._is_taken(name):
                raise NameTaken(name)
            if len(self._engines) + len(self._coming) >= MAX_ENGINES:
                raise UserError(
                    f"{MAX_ENGINES} engines are watched at once; remove one first, or start another kvxray."
                )
            self._coming.add(name)
