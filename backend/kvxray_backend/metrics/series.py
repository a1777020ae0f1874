"""One counter, histogram or gauge over time: bounded, and right across restarts of who counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kvxray_backend.metrics.histograms import Buckets

# An hour at one scrape every five seconds.
MAX_POINTS: Final = 720

Amount = TypeVar("Amount", float, Buckets)


@dataclass(frozen=True, slots=True)
class Grown(Generic[Amount]):
    """By how much something grew, and over how many seconds that is known: fewer than asked for where the series began
    later, or is scraped less often.
    """

    amount: Amount
    seconds: float


class GrowingSeries(Generic[Amount]):
    """A counter or histogram: totals that only grow, across resets. What it had when it was first seen is its beginning
    and no growth, since nobody knows when it grew.
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, Amount]] = deque(maxlen=MAX_POINTS)
        self._last_told: Amount | None = None

    def begin_at_zero(self, at_s: float, told: Amount) -> None:
        """For a series that was born since the scrape at `at_s`, its first number being `told`: all of it is growth."""
        assert not self._points, "a series is born once"
        zero = told - told
        self._points.append((at_s, zero))
        self._last_told = zero

    def add(self, at_s: float, told: Amount, *, began_anew: bool = False) -> bool:
        """True: it fell (or whoever counts is known to have begun anew), so that it counts from 0 again."""
        was_reset = False
        total = told
        if self._last_told is not None:
            was_reset = began_anew or _fell(told, self._last_told)
            total = self._grown_to(told, self._last_told, was_reset)
        self._points.append((at_s, total))
        self._last_told = told
        return was_reset

    def _grown_to(self, told: Amount, before: Amount, was_reset: bool) -> Amount:
        total = self._points[-1][1]
        if not was_reset:
            return total + (told - before)
        if isinstance(told, Buckets) and isinstance(total, Buckets) and told.bounds != total.bounds:
            # Other buckets: what was counted in the old ones cannot be told in these.
            zero = told - told
            self._points = deque([(self._points[-1][0], zero)], MAX_POINTS)
            return told
        return total + told

    @property
    def last_s(self) -> float:
        return self._points[-1][0]

    @property
    def told(self) -> Amount:
        """What it told last, of the life that it is in."""
        assert self._last_told is not None, "a series has at least one point"
        return self._last_told

    @property
    def began_with(self) -> Amount:
        """What it had counted when it was first seen, as far as is remembered: nobody knows when that grew."""
        return self._points[0][1]

    def last_growth(self) -> Grown[Amount] | None:
        """Between the last two times it was told; None: it was told once."""
        if len(self._points) < 2:
            return None
        (before_s, before), (last_s, last) = self._points[-2], self._points[-1]
        return Grown(last - before, last_s - before_s)

    def grown(self, since_s: float, until_s: float) -> Grown[Amount] | None:
        """None: fewer than two points to tell it from."""
        points = [point for point in self._points if point[0] <= until_s]
        before = [point for point in points if point[0] <= since_s]
        start = before[-1] if before else points[0] if points else None
        if start is None or points[-1][0] <= start[0]:
            return None
        return Grown(points[-1][1] - start[1], points[-1][0] - start[0])


def _fell(told: Amount, before: Amount) -> bool:
    if isinstance(told, Buckets) and isinstance(before, Buckets):
        return told.is_below(before)
    assert not isinstance(told, Buckets), "a series is one or the other"
    assert not isinstance(before, Buckets), "a series is one or the other"
    return told < before


class GaugeSeries:
    """What a gauge stood at, whenever it was read."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=MAX_POINTS)

    def add(self, at_s: float, value: float) -> None:
        self._points.append((at_s, value))

    @property
    def last_s(self) -> float:
        return self._points[-1][0]

    @property
    def value(self) -> float:
        return self._points[-1][1]

    def points(self) -> Iterable[tuple[float, float]]:
        return tuple(self._points)


def together(grown: Iterable[Grown[float]]) -> Grown[float] | None:
    """Of several engines: what they grew by together, over the longest time that any of them is known for."""
    each = list(grown)
    if not each:
        return None
    return Grown(sum(one.amount for one in each), max(one.seconds for one in each))
