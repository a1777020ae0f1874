"""What is found in one watched source, and what of it the event log is told: every change, at a bounded pace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.stream_health import storage_finding
from kvxray_backend.sources.foreign.followed_source import FollowedSource

STORED_AT_ONCE: Final = 200
STATES: Final = ("unreachable_resident", "resident_over_capacity", "thrash")
"""What is looked for in the fold again and again; all else is told once, when it happens."""


class RankFindings:
    """For one thread at a time."""

    def __init__(self, store: Callable[[Finding], object]) -> None:
        self._store = store
        self._book = FindingsBook(store)
        self._num_lost = 0

    def inspect(
        self, followed: FollowedSource, states: Sequence[Finding], failure: str | None, num_lost: int, now_ns: int
    ) -> tuple[Finding, ...]:
        """All that is open. states: what is wrong with what is cached now. failure: why the event log takes nothing
        now. num_lost: messages that it could not take, up to now.
        """
        self._book.end_other_epochs(followed.epoch, STATES, now_ns)
        for kind in STATES:
            self._book.reconcile(kind, [one for one in states if one.kind == kind], now_ns)
        self._look_at_storage(followed, failure, num_lost, now_ns)
        for finding in followed.findings.take_changed(STORED_AT_ONCE):
            self._store(finding)
        return (*followed.findings.open, *self._book.open)

    def close(self, followed: FollowedSource, now_ns: int) -> None:
        """Nobody looks any more: what is open is over."""
        followed.findings.end_all(now_ns)
        for finding in followed.findings.take_changed(STORED_AT_ONCE):
            self._store(finding)
        self._book.end_kinds((*STATES, "storage"), now_ns)

    def _look_at_storage(self, followed: FollowedSource, failure: str | None, num_lost: int, now_ns: int) -> None:
        told = failure
        if told is None and num_lost > self._num_lost:
            told = f"The event log could not keep up: {num_lost:,} batches are missing in what is stored."
        self._num_lost = num_lost
        found = [storage_finding(followed.place, told)] if told else []
        self._book.reconcile("storage", found, now_ns)
