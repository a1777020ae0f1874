"""What metrics of one engine told, kept as far back as rules look and no further: as evidence that goes on with time,
so that no look reads again what the looks before it read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Final

from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import Node, walk, window_of
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.metrics.minute import Stretch
from kvxray_backend.signal_history import RECENT_S, Timed

TIDY_EVERY_S: Final = 600.0
LEAST_S: Final = 300.0
"""Of any signal: a gauge is asked for as it was read last, and before that."""
MINUTE_S: Final = 60.0


def windows_of(rules: Iterable[Rule]) -> dict[str, float]:
    """By signal, how far back any of the rules looks."""
    found: dict[str, float] = {"sleep_state": LEAST_S}
    for rule in rules:
        longest = window_of(rule.when) + LEAST_S
        for node in walk(rule.when):
            if (signal := _signal_of(node)) is not None:
                found[signal] = max(found.get(signal, 0.0), longest)
    return found


def _signal_of(node: Node) -> str | None:
    signal = getattr(node, "signal", None)
    return signal if isinstance(signal, str) else None


class KeptSignals:
    """windows: by signal, for how many seconds it is kept; others are not. `evidence` goes on with it."""

    def __init__(self, windows: Mapping[str, float]) -> None:
        self.windows = windows
        self._longest_s = max(windows.values(), default=0.0)
        self._told: list[Timed] = []
        self.evidence = Evidence(self._told)
        self._tidied_s: float | None = None

    @property
    def last_s(self) -> float:
        """When it was told last; 0: never."""
        return self._told[-1].at_s if self._told else 0.0

    def begin_with(self, past: Iterable[Timed]) -> None:
        """What was told before all that is kept."""
        first_s = self._told[0].at_s - self._told[0].seconds if self._told else None
        older = [self._of_rules(one) for one in past if first_s is None or one.at_s <= first_s]
        self._told[:0] = older
        self.evidence.forget_tracks()
        self.evidence.forget_numbers(self.last_s + 1)

    def add(self, told: Iterable[Timed]) -> None:
        """In order of time; what is not newer than what is kept is left out."""
        for one in told:
            if one.at_s > self.last_s:
                kept = self._of_rules(one)
                self._told.append(kept)
                self.evidence.went_on(kept)
        if self._tidied_s is None and self._told:
            # Engines that were attached together are not tidied together: that would make one look a long one.
            self._tidied_s = self.last_s - random.uniform(0, TIDY_EVERY_S)
        if self._tidied_s is not None and self.last_s - self._tidied_s >= TIDY_EVERY_S:
            self._tidy()

    def _of_rules(self, timed: Timed) -> Timed:
        told = {key: value for key, value in timed.stretch.told.items() if key[0] in self.windows}
        return Timed(timed.at_s, timed.seconds, Stretch(told))

    def _tidy(self) -> None:
        """What was read more than an hour ago is put together by the minute, and what no rule asks for goes."""
        self._tidied_s = now_s = self.last_s
        kept = list[Timed]()
        for one in self._told:
            if one.at_s <= now_s - self._longest_s:
                continue
            young = {key: told for key, told in one.stretch.told.items() if one.at_s > now_s - self.windows[key[0]]}
            fits = kept and one.at_s <= now_s - RECENT_S and _minute(kept[-1]) == _minute(one)
            if fits and one.seconds < MINUTE_S:
                whole = Stretch()
                whole.add(kept[-1].stretch)
                whole.add(Stretch(young))
                kept[-1] = Timed(one.at_s, kept[-1].seconds + one.seconds, whole)
            else:
                kept.append(Timed(one.at_s, one.seconds, Stretch(young)))
        self._told[:] = kept
        self.evidence.forget_tracks()
        self.evidence.forget_numbers(now_s - self._longest_s)


def _minute(timed: Timed) -> int:
    """The one that it lies in; its end belongs to it."""
    return int(-(-timed.at_s // MINUTE_S))
