"""All that is known of one engine up to a moment, as rules ask for it: signals over time, figures, findings.

Nothing here is 0 for want of knowledge: what was not told has no value, and neither has a window that is known in
part, where half a window could pass for a whole one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure
from kvxray_backend.metrics.minute import Counted, Spread, Stood, Told, together

if TYPE_CHECKING:
    from kvxray_backend.signal_history import Timed

STALE_AFTER_S: Final = 120.0
"""A gauge read longer ago tells nothing of now."""
MAX_STEP_S: Final = 150.0
"""Two readings that lie further apart do not tell what was between them."""
KNOWN_SHARE: Final = 0.8
"""How much of a window must be known before it is said what never happened in it."""


@dataclass(frozen=True, slots=True)
class _Point:
    at_s: float
    seconds: float
    told: Told


@dataclass(slots=True)
class Evidence:
    """told: what metrics told, in order of time. findings: open ones, and those that began in the last minutes; None:
    nobody looks for any. started_s: when the process began; None: not known. Times in Unix seconds.
    """

    told: Sequence[Timed]
    findings: Sequence[Finding] | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    started_s: float | None = None
    _tracks: dict[tuple[str, str], tuple[list[float], list[_Point]]] = field(default_factory=dict)
    _numbers: dict[tuple[str, float], float | None] = field(default_factory=dict)

    def went_on(self, timed: Timed) -> None:
        """What `told` was given next; what was made of it before is gone on with."""
        for (signal, part), (times, points) in self._tracks.items():
            told = _told(timed, signal, part)
            if told is not None:
                times.append(timed.at_s)
                points.append(_Point(timed.at_s, timed.seconds, told))

    def forget_tracks(self) -> None:
        """After `told` changed otherwise."""
        self._tracks.clear()

    def forget_numbers(self, before_s: float) -> None:
        """Those of moments before; of all, where more came to be known of the past."""
        self._numbers = {key: value for key, value in self._numbers.items() if key[1] >= before_s}

    def number(self, name: str, at_s: float, make: Callable[[], float | None]) -> float | None:
        """One that is recorded under a name, as it was then: made once, since means ask for the same ones again."""
        key = name, at_s
        if key not in self._numbers:
            self._numbers[key] = make()
        return self._numbers[key]

    def now(self, signal: str, part: str, at_s: float) -> float | None:
        """A gauge as it stood in the last reading."""
        times, points = self._track(signal, part)
        index = bisect_right(times, at_s) - 1
        if index < 0 or at_s - points[index].at_s > STALE_AFTER_S:
            return None
        told = points[index].told
        return told.mean if isinstance(told, Stood) else None

    def lowest(self, signal: str, part: str, window_s: float, at_s: float) -> float | None:
        stood = self._stood(signal, part, window_s, at_s)
        return min(one.lowest for one in stood) if stood else None

    def highest(self, signal: str, part: str, window_s: float, at_s: float) -> float | None:
        stood = self._stood(signal, part, window_s, at_s)
        return max(one.highest for one in stood) if stood else None

    def grown(self, signal: str, part: str, window_s: float, at_s: float, *, whole: bool = False) -> float | None:
        """whole: None unless the window is known nearly whole; else what is known of it is the least that it was."""
        points = self._between(signal, part, window_s, at_s)
        amounts = [_amount(one.told) for one in points]
        if not amounts or (whole and not _is_known(points, window_s, at_s)):
            return None
        return sum(amounts)

    def total(self, signal: str, window_s: float, at_s: float) -> float | None:
        """Of the values that came into a histogram."""
        points = self._between(signal, "", window_s, at_s)
        return sum(one.told.total for one in points if isinstance(one.told, Spread)) if points else None

    def is_read(self, at_s: float) -> bool:
        """Whether any metrics were read of late."""
        index = bisect_right(self.told, at_s, key=lambda one: one.at_s) - 1
        return index >= 0 and self.told[index].at_s > at_s - STALE_AFTER_S

    def _stood(self, signal: str, part: str, window_s: float, at_s: float) -> list[Stood]:
        points = self._between(signal, part, window_s, at_s)
        if not _is_known(points, window_s, at_s):
            return []
        return [one.told for one in points if isinstance(one.told, Stood)]

    def _between(self, signal: str, part: str, window_s: float, at_s: float) -> list[_Point]:
        times, points = self._track(signal, part)
        return points[bisect_right(times, at_s - window_s) : bisect_right(times, at_s)]

    def _track(self, signal: str, part: str) -> tuple[list[float], list[_Point]]:
        """Made once: rules ask for the same signals at many moments."""
        key = (signal, part)
        if key not in self._tracks:
            points = [
                _Point(one.at_s, one.seconds, told)
                for one in self.told
                if (told := _told(one, signal, part)) is not None
            ]
            self._tracks[key] = [one.at_s for one in points], points
        return self._tracks[key]


def _told(timed: Timed, signal: str, part: str) -> Told | None:
    if part:
        return timed.stretch.told.get((signal, part))
    whole = timed.stretch.told.get((signal, ""))
    return whole or together(signal, [value for _, value in timed.stretch.parts(signal)])


def _amount(told: Told) -> float:
    return told.amount if isinstance(told, Counted) else told.num


def _is_known(points: Iterable[_Point], window_s: float, at_s: float) -> bool:
    begin_s = at_s - window_s
    known = sum(min(one.seconds, MAX_STEP_S, one.at_s - begin_s) for one in points)
    return known >= KNOWN_SHARE * window_s
