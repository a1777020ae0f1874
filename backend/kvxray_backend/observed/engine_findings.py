"""What is found in a watched engine as a whole: by its metrics, beside others, and in what reaches us of its
stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.stream_health import Place, malformed_finding
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_backend.sources.foreign.pages_and_events import findings_of_pages

KINDS: Final = ("metrics_contradiction", "conservation_violation", "hit_rate_suspect", "config", "hash_seed_mismatch")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Messages that were none, or nobody's, up to now, and what was wrong with them most often."""

    num: int = 0
    reason: str = ""


class EngineFindings:
    """For one thread at a time. They are of the engine's name, and of no epoch."""

    def __init__(self, engine: str, store: Callable[[Finding], object]) -> None:
        self._engine = engine
        self._store = store
        self._book = FindingsBook(store)
        self._told: set[str] = set()
        self._num_unreadable = 0

    def take_over(self, still_open: Iterable[Finding], now_ns: int) -> None:
        """Ends what an earlier process left open, unless it is found again."""
        for finding in still_open:
            if finding.epoch == 0:
                self._store(finding.ended(now_ns, with_engine=True))

    def inspect(
        self,
        watch: MetricsWatch | None,
        sources: Sequence[FollowedSource],
        found: Sequence[Finding],
        seeds: Sequence[Finding],
        unreadable: Unreadable,
        now_ns: int,
    ) -> tuple[Finding, ...]:
        """All that is open. found: what is open in its sources; seeds: what other engines show."""
        states = [*seeds]
        for finding in findings_of_pages(watch, sources, found):
            if finding.state == "open":
                states.append(finding)
            elif finding.id not in self._told:
                self._told.add(finding.id)
                self._store(finding)
        for kind in KINDS:
            self._book.reconcile(kind, [one for one in states if one.kind == kind], now_ns)
        if unreadable.num > self._num_unreadable:
            self._num_unreadable = unreadable.num
            self._store(malformed_finding(Place(self._engine, 0, 0, now_ns), unreadable.num, unreadable.reason))
        return self._book.open

    def close(self, now_ns: int) -> None:
        """Nobody looks any more: what is open is over."""
        self._book.end_kinds(KINDS, now_ns)
