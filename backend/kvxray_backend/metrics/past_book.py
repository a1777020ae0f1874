"""What metrics told up to a moment of the past, out of the stretches that are kept: asked like the book of the present.

What all engines of a page told is together in them, and what was counted since an engine started is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf

import numpy as np

from kvxray_backend.metrics.histograms import Buckets, Quantile, quantile
from kvxray_backend.metrics.minute import Counted, Spread, Stood, Stretch, Told
from kvxray_backend.metrics.ratio import Ratio
from kvxray_backend.metrics.series import Grown

Reading = tuple[float, Stretch]
"""When it ends, in seconds, and what was told in it."""


class PastBook:
    """`readings`: in order of time. The last of them is the moment."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    @property
    def read_s(self) -> float | None:
        return self._readings[-1][0] if self._readings else None

    def is_told(self, signal: str) -> bool:
        """By the last reading."""
        return bool(self._readings) and any(True for _ in self._readings[-1][1].parts(signal))

    def value(self, signal: str, part: str | None = None) -> float | None:
        """Of a gauge its mean over the last reading. None of a counter: it is kept by what it grew."""
        told = _of(self._readings[-1][1], signal, part) if self._readings else None
        return told.mean if isinstance(told, Stood) else None

    def course(self, signal: str, part: str | None = None) -> list[tuple[float, float]]:
        """A gauge over time, by its means."""
        told = ((at_s, _of(stretch, signal, part)) for at_s, stretch in self._readings)
        return [(at_s, one.mean) for at_s, one in told if isinstance(one, Stood)]

    def peaks(self, signal: str) -> list[tuple[float, float]]:
        told = ((at_s, stretch.whole(signal)) for at_s, stretch in self._readings)
        return [(at_s, one.highest) for at_s, one in told if isinstance(one, Stood)]

    def grown(self, signal: str, window_s: float, part: str | None = None) -> Grown[float] | None:
        told = [one for one in self._within(signal, window_s, part) if isinstance(one, Counted)]
        seconds = sum(one.seconds for one in told)
        return Grown(sum(one.amount for one in told), seconds) if seconds > 0 else None

    def rate(self, signal: str, window_s: float, part: str | None = None) -> float | None:
        grown = self.grown(signal, window_s, part)
        return grown.amount / grown.seconds if grown is not None else None

    def ratio(self, numerator: str, denominator: str, window_s: float | None) -> Ratio | None:
        """None for a window of all there was: it is not kept."""
        if window_s is None:
            return None
        above, below = self.grown(numerator, window_s), self.grown(denominator, window_s)
        if above is None or below is None or below.amount <= 0:
            return None
        return Ratio(above.amount / below.amount, above.amount, below.amount, below.seconds)

    def histogram(self, signal: str, window_s: float | None) -> Buckets | None:
        """None for a window of all there was: it is not kept."""
        if window_s is None:
            return None
        whole = Stretch()
        for one in self._within(signal, window_s, None):
            if isinstance(one, Spread):
                whole.add(Stretch({(signal, ""): one}))
        spread = whole.whole(signal)
        return _buckets(spread) if isinstance(spread, Spread) else None

    def quantile(self, signal: str, q: float, window_s: float | None) -> Quantile | None:
        found = self.histogram(signal, window_s)
        return quantile(found, q) if found is not None else None

    def _within(self, signal: str, window_s: float, part: str | None) -> Iterator[Told]:
        since_s = (self.read_s or 0.0) - window_s
        told = (_of(stretch, signal, part) for at_s, stretch in self._readings if at_s > since_s)
        return (one for one in told if one is not None)


def _of(stretch: Stretch, signal: str, part: str | None) -> Told | None:
    return stretch.whole(signal) if part is None else stretch.told.get((signal, part))


def _buckets(spread: Spread) -> Buckets:
    """The same values with bounds that all of them have: a bucket of which nothing is known has nothing in it."""
    bounds = sorted({bound for bucket in spread.num_by_bucket for bound in bucket} | {inf})
    num = {upper: count for (_, upper), count in spread.num_by_bucket.items()}
    counts = np.array(list(accumulate(num.get(bound, 0.0) for bound in bounds)), np.float64)
    return Buckets(tuple(bounds), counts, spread.total)
