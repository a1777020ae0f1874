"""One engine over a stretch of the past, as evidence for rules at any moment of it. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_backend.alerts.alert import AlertMoment
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.recent_findings import KEPT_NS
from kvxray_backend.alerts.rule import Server
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.signal_history import Timed

BEGAN_ANEW: Final = ("counter_reset", "engine_restart", "restart")
_NS: Final = 1_000_000_000
_LAST_NS: Final = 2**63 - 1


@dataclass(slots=True)
class PastEngine:
    """told: what its metrics told. findings: all of that time, whatever became of them. spans: from when to when (wall
    ns) its events were followed: outside of them, where no metrics were read and nothing was open, nobody looked for
    anything.
    """

    name: str
    serves: frozenset[Server]
    told: Sequence[Timed] = ()
    findings: Sequence[Finding] = ()
    spans: Sequence[tuple[int, int]] = ()
    model: str = ""
    role: str = "both"
    _evidence: Evidence | None = None
    _begins: list[int] = field(default_factory=list)
    _signals: frozenset[str] = frozenset()
    _looked: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.told)
        self.findings = sorted(self.findings, key=lambda one: one.time_ns)
        self._begins = [one.time_ns for one in self.findings]
        # What was open was seen, also where the engine's clock tells of times before we followed it.
        self._looked = _joined([*self.spans, *((one.time_ns, one.ended_ns or _LAST_NS) for one in self.findings)])
        self._signals = frozenset(name for one in self.told for name, _ in one.stretch.told)

    def moments(self) -> Iterable[int]:
        """When something began or ended, wall ns."""
        for one in self.findings:
            yield one.time_ns
            if one.ended_ns is not None:
                yield one.ended_ns

    def at(self, t_ns: int) -> Watched:
        """As it was known then; it is the same evidence each time, so that one look at a time may have it."""
        assert self._evidence is not None, "it was made"
        evidence, at_s = self._evidence, t_ns / _NS
        evidence.findings = self._found(t_ns) if self._was_looked_at(t_ns) or evidence.is_read(at_s) else None
        evidence.started_s = self._started_s(t_ns)
        return Watched(
            self.name, evidence, self.serves, {"model": self.model, "role": self.role}, self.model, self.role,
            told=lambda: self._signals, moment=lambda one: self._moment(one, t_ns),
        )  # fmt: skip

    def _was_looked_at(self, t_ns: int) -> bool:
        at = bisect_right(self._looked, t_ns, key=lambda span: span[0]) - 1
        return at >= 0 and t_ns <= self._looked[at][1]

    def _found(self, t_ns: int) -> list[Finding]:
        """What was open then, and what was over and had begun in the hour before."""
        begun = self.findings[: bisect_right(self._begins, t_ns)]
        return [
            _as_it_was(one, t_ns)
            for one in begun
            if one.ended_ns is None or one.ended_ns > t_ns or one.time_ns >= t_ns - KEPT_NS
        ]

    def _started_s(self, t_ns: int) -> float | None:
        """No later than this, as far as is known: since then it was told, and never began anew."""
        if not self.told:
            return None
        first_s = self.told[0].at_s - self.told[0].seconds
        anew = [one.time_ns / _NS for one in self.findings if one.kind in BEGAN_ANEW and one.time_ns <= t_ns]
        return max([first_s, *anew])

    def _moment(self, finding: Finding | None, t_ns: int) -> AlertMoment:
        source = finding.source if finding is not None else self.name
        return AlertMoment(source=source, epoch=None, seq=None, time_ns=t_ns)


def _as_it_was(finding: Finding, t_ns: int) -> Finding:
    if finding.ended_ns is None or finding.ended_ns <= t_ns:
        return finding
    return finding.model_copy(update={"state": "open", "ended_ns": None})


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, none of which meets another."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
