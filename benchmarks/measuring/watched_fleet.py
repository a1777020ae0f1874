"""Engines as the rules see them: a day of made-up metrics of each, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kvxray_backend.alerts.kept_signals import KeptSignals, windows_of
from kvxray_backend.alerts.rule import SERVERS
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.minute import Counted, Key, Spread, Stood, Stretch, Told
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.signal_history import Timed

SCRAPE_S = 5.0
MINUTE_S = 60.0
DAY_S = 86_400.0


class WatchedFleet:
    """`engines`: what a look is given, all of one model; whoever can tell anything tells it."""

    def __init__(self, num: int, now_s: float) -> None:
        self._random = Random(1)
        self._windows = windows_of(RULES.values())
        self._kept = [self._a_day(now_s) for _ in range(num)]
        self.engines: Sequence[Watched] = [
            Watched(f"engine-{at}", kept.evidence, frozenset(SERVERS), {}, "made-up")
            for at, kept in enumerate(self._kept)
        ]

    def read(self, at_s: float) -> None:
        """The metrics of each, once more."""
        for kept in self._kept:
            kept.add([self._reading(at_s, SCRAPE_S)])

    def found(self, findings: Sequence[Finding]) -> None:
        """By the first engine."""
        for at, kept in enumerate(self._kept):
            kept.evidence.findings = [] if at else findings

    def _a_day(self, now_s: float) -> KeptSignals:
        kept = KeptSignals(self._windows, now_s)
        first_s, hour_s = now_s - DAY_S - 2 * 3_600, now_s - 3_600
        minutes = int((hour_s - first_s) / MINUTE_S)
        times = [(first_s + at * MINUTE_S, MINUTE_S) for at in range(minutes + 1)]
        times += [(hour_s + at * SCRAPE_S, SCRAPE_S) for at in range(1, int(3_600 / SCRAPE_S) + 1)]
        past = [self._reading(at_s, seconds) for at_s, seconds in times]
        while (read := kept.to_read) is not None:
            kept.begin_with(read, (one for one in past if read.from_s < one.at_s <= read.to_s))
        kept.evidence.started_s = first_s
        return kept

    def _reading(self, at_s: float, seconds: float) -> Timed:
        told: dict[Key, Told] = {key: self._value(SIGNALS[key[0]].kind, seconds) for key in self._windows}
        return Timed(at_s, seconds, Stretch(told))

    def _value(self, kind: str, seconds: float) -> Told:
        size = self._random.random()
        if kind == "gauge":
            return Stood(size, size, size)
        if kind == "counter":
            return Counted(100 * size, seconds)
        return Spread(seconds, 10 * size, {(0.0, 1.0): 100 * size})
