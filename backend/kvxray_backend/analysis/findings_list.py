"""Findings of one source as they are made, open and over: bounded, each id once."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from kvxray_backend.analysis.finding import Finding

MAX_OF_A_KIND: Final = 1_000
TIMES: Final = "times"


class FindingsList:
    """`times`: how often each kind was found, those included that were too many to keep."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self._by_id: dict[str, Finding] = {}
        self._kept: Counter[str] = Counter()
        self._changed: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def all(self) -> tuple[Finding, ...]:
        """In the order in which they were first found."""
        return tuple(self._by_id.values())

    @property
    def open(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self._by_id.values() if finding.state == "open")

    def is_full(self, kind: str) -> bool:
        """Whether no other finding of that kind is kept: what is found then need only be counted."""
        return self._kept[kind] >= MAX_OF_A_KIND

    def count(self, kind: str) -> None:
        """One more that is not kept."""
        self.times[kind] += 1

    def note(self, finding: Finding) -> None:
        """One that was found before keeps its beginning, and is counted."""
        self.times[finding.kind] += 1
        known = self._by_id.get(finding.id)
        if known is not None:
            times = known.numbers.get(TIMES, 1) + 1
            again = finding.model_copy(update={"numbers": {**finding.numbers, TIMES: times}})
            self._by_id[finding.id] = known.went_on(again)
            self._changed[finding.id] = None
        elif self._kept[finding.kind] < MAX_OF_A_KIND:
            self._kept[finding.kind] += 1
            self._by_id[finding.id] = finding
            self._changed[finding.id] = None

    def end(self, id: str, now_ns: int) -> None:
        """Ends a finding; one that is not open, or was not kept, is left alone."""
        known = self._by_id.get(id)
        if known is not None and known.state == "open":
            self._by_id[id] = known.ended(now_ns)
            self._changed[id] = None

    def end_all(self, now_ns: int) -> None:
        """What they are about is over, and they with it."""
        for finding in self.open:
            self._by_id[finding.id] = finding.ended(now_ns, with_engine=True)
            self._changed[finding.id] = None

    def take_changed(self, limit: int) -> list[Finding]:
        """At most so many of those that are new or have changed since they were taken last."""
        taken = list(islice(self._changed, limit))
        for id in taken:
            del self._changed[id]
        return [self._by_id[id] for id in taken]

    def check_integrity(self) -> None:
        """Asserts that it is bounded and that each finding stands under its own id."""
        assert all(count <= MAX_OF_A_KIND for count in self._kept.values()), "too many of a kind are kept"
        assert all(id == finding.id for id, finding in self._by_id.items()), "a finding stands under another id"
