"""Compares the hashes of all watched engines two by two, now and then: engines with different seeds share nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import combinations
from threading import Lock, RLock
from typing import Final, Protocol

from kvxray_engine.clock import Clock

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import ONE_PART_OF
from kvxray_backend.analysis.seed_mismatch import HashesByTokens, seed_mismatch_findings

EVERY_S: Final = 10.0
MAX_COMPARED: Final = 4_096
"""Blocks of each engine, the last told: engines that work on the same prompts share some of them."""

logger = logging.getLogger(__name__)


class Compared(Protocol):
    """One engine. `lock` guards the rest; `seed_findings` are those under its name."""

    lock: RLock
    by_tokens: HashesByTokens
    seed_findings: tuple[Finding, ...]


class SeedWatch:
    """Engines join and leave from any thread."""

    def __init__(self, clock: Clock, every_s: float = EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._lock = Lock()
        self._engines: dict[str, Compared] = {}

    def join(self, name: str, engine: Compared) -> None:
        with self._lock:
            self._engines[name] = engine

    def leave(self, name: str) -> None:
        with self._lock:
            self._engines.pop(name, None)

    async def run(self) -> None:
        """Until it is cancelled; takes at most a tenth of one core."""
        while True:
            began_s = time.monotonic()
            try:
                await asyncio.to_thread(self.compare)
            except Exception:
                logger.exception("Comparing the seeds of engines stumbled; it is tried again.")
            await asyncio.sleep(max(self._every_s, ONE_PART_OF * (time.monotonic() - began_s)))

    def compare(self) -> None:
        """Once, all with all; each two are held for a millisecond or so."""
        with self._lock:
            engines = sorted(self._engines.items())
        found: dict[str, list[Finding]] = {name: [] for name, _ in engines}
        for (one, first), (other, second) in combinations(engines, 2):
            # In the order of their names: nobody else holds two.
            with first.lock, second.lock:
                both = {one: first.by_tokens, other: second.by_tokens}
                found[one] += seed_mismatch_findings(both, self._clock.wall_ns(), MAX_COMPARED)
        for name, engine in engines:
            with engine.lock:
                engine.seed_findings = tuple(found[name])
