"""Engines watched over real sockets, with a database of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_engine.clock import SystemClock
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog

from tests.backend.foreign.engine_rig import EngineRig

PATIENCE_S = 60.0


@contextmanager
def stored_in(folder: Path) -> Iterator[tuple[Database, EventLog]]:
    """A database that is closed in the end, with all that was handed to its log."""
    database = open_database(f"sqlite:///{folder / 'kvxray.db'}")
    try:
        with EventLog(database, chunk_seconds=0.05) as log:
            yield database, log
    finally:
        database.close()


@contextmanager
def watching(database: Database, log: EventLog, spec: ObserveSpec) -> Iterator[ObservedEngine]:
    engine = ObservedEngine(spec, database, log, SystemClock())
    engine.start()
    try:
        yield engine
    finally:
        engine.close()


def spec_of(rig: EngineRig, *, replay: bool = False, **more: Any) -> ObserveSpec:
    return ObserveSpec(name="e", events=rig.events, replay=rig.replay if replay else None, **more)


def until(condition: Callable[[], Any]) -> Any:
    """What the condition says once it says something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)
    return found


def num_cached(engine: ObservedEngine, source: str = "e") -> int:
    """Blocks anywhere; 0 while the source was not heard."""
    with engine.lock:
        rank = engine.ranks.get(source)
        fold = rank.followed.fold if rank is not None else None
        return sum(len(fold.residents(place)) for place in fold.places()) if fold is not None else 0


def kinds(engine: ObservedEngine) -> list[str]:
    """Of the findings that are open."""
    return [finding.kind for finding in engine.findings]
