"""All built-in rules over one engine, look by look, as the product looks: what fired, when, and on what grounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_book import AlertBook, Now
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.recent_findings import RecentFindings
from kvxray_backend.alerts.rule import Server
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure
from kvxray_backend.signal_history import Timed


class AlertDesk:
    """`fired`: alerts in the order in which they fired, as they were then. `findings`: all there ever were, by id, as
    they stand.
    """

    def __init__(self, engine: str, *serves: Server) -> None:
        self.fired: list[Alert] = []
        self.findings: dict[str, Finding] = {}
        self.engine = engine
        self.num_looks = 0
        self._serves = frozenset(serves)
        self._recent = RecentFindings()
        numbers = count()
        self._book = AlertBook(lambda: f"alert-{next(numbers)}", _stumbled)

    def note(self, finding: Finding) -> None:
        """Takes a change of a finding."""
        self.findings[finding.id] = finding
        self._recent.note(finding)

    def look(
        self,
        at_ns: int,
        still_open: Iterable[Finding],
        told: Sequence[Timed] = (),
        figures: Mapping[str, Figure] | None = None,
        started_s: float | None = None,
    ) -> None:
        """at_ns: wall."""
        self.num_looks += 1
        found = {one.id: one for one in (*self._recent.of(self.engine, at_ns), *still_open)}
        evidence = Evidence(told, [*found.values()], figures or {}, started_s)
        now = Now(at_ns / 1e9, at_ns / 1e9, at_ns)
        for change in self._book.look(RULES, [Watched(self.engine, evidence, self._serves)], now):
            if change.kind == "fired":
                self.fired.append(change.alert)


def _stumbled(rule: str, engine: str, error: Exception) -> None:
    raise AssertionError(f"{rule} cannot be looked at for {engine}") from error
