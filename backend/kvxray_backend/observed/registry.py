"""The engines that are watched from outside, by name: attached and detached while the server runs."""

from __future__ import annotations

import threading
from typing import Literal

from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog

from kvxray_backend.observed.engine import ObservedEngine, ObservedRank
from kvxray_backend.observed.spec import ObserveSpec

Origin = Literal["settings", "file", "page"]


class ObservedEngines:
    """Safe to call from any thread. `origin_of`: who attached an engine."""

    def __init__(self, database: Database, log: EventLog, clock: Clock) -> None:
        self._database, self._log, self._clock = database, log, clock
        self._lock = threading.Lock()
        self._engines: dict[str, ObservedEngine] = {}
        self._origins: dict[str, Origin] = {}

    @property
    def all(self) -> list[ObservedEngine]:
        """In the order in which they were attached."""
        with self._lock:
            return list(self._engines.values())

    def get(self, name: str) -> ObservedEngine | None:
        with self._lock:
            return self._engines.get(name)

    def origin_of(self, name: str) -> Origin:
        with self._lock:
            return self._origins[name]

    def rank(self, source: str) -> tuple[ObservedEngine, ObservedRank | None] | None:
        """The engine that a source is of, and the source itself; an engine's own name is also that of its first rank,
        which may not have been heard yet. None: nobody watches it.
        """
        for engine in self.all:
            rank = engine.ranks.get(source)
            if rank is not None or engine.spec.name == source:
                return engine, rank
        return None

    def attach(self, spec: ObserveSpec, origin: Origin) -> ObservedEngine:
        """Begins to watch. Raises `UserError`, one sentence."""
        engine = ObservedEngine(spec, self._database, self._log, self._clock)
        with self._lock:
            if spec.name in self._engines:
                raise UserError(f"There is an engine {spec.name!r} already; give this one another name.")
            self._engines[spec.name], self._origins[spec.name] = engine, origin
        engine.start()
        return engine

    def detach(self, name: str) -> bool:
        """Stops watching; what was stored stays. False: there is no such engine."""
        with self._lock:
            engine = self._engines.pop(name, None)
            self._origins.pop(name, None)
        if engine is not None:
            engine.close()
        return engine is not None

    def close(self) -> None:
        for engine in self.all:
            self.detach(engine.spec.name)
