"""Metrics of made-up engines, taken as the metrics loop takes them, as evidence for rules."""

from __future__ import annotations

from collections.abc import Iterable

from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.exposition import Page, Sample
from kvxray_backend.metrics.minute import latest
from kvxray_backend.signal_history import Timed
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

T0_S = 1_800_000_000.0


class Engine:
    """Pages go in; what is known so far comes out."""

    def __init__(self, name: str = "a") -> None:
        self.watch, self.told = MetricsWatch(name), list[Timed]()
        self.started_s: float | None = None
        self.findings: tuple[Finding, ...] | None = None

    def page(self, at_s: float, samples: Iterable[Sample]) -> None:
        told = tuple(samples)
        self.watch.take(at_s, Page(told))
        seconds = at_s - self.told[-1].at_s if self.told else 0.0
        self.told.append(Timed(at_s, seconds, latest(self.watch.book)))
        started = [one.value for one in told if one.name == "process_start_time_seconds"]
        self.started_s = started[0] if started else self.started_s

    def evidence(self) -> Evidence:
        return Evidence(self.told, self.findings, {}, self.started_s)


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name, labels, value)
