"""Histograms: what fell into which bucket, and the quantiles that can be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isnan
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_BUCKETS: Final = 256


@dataclass(frozen=True, slots=True)
class Buckets:
    """`bounds`: upper bounds, ascending, the last one infinite. `counts`: how many were at most that large, so they
    never fall along the bounds. `total`: the sum of all values.
    """

    bounds: tuple[float, ...]
    counts: NDArray[np.float64]
    total: float

    @property
    def num(self) -> float:
        return float(self.counts[-1])

    def __sub__(self, earlier: Buckets) -> Buckets:
        assert self.bounds == earlier.bounds, "histograms of different buckets do not subtract"
        return Buckets(self.bounds, self.counts - earlier.counts, self.total - earlier.total)

    def __add__(self, other: Buckets) -> Buckets:
        assert self.bounds == other.bounds, "histograms of different buckets do not add"
        return Buckets(self.bounds, self.counts + other.counts, self.total + other.total)

    def is_below(self, earlier: Buckets) -> bool:
        """A histogram that lost something, or changed its buckets, began anew."""
        return self.bounds != earlier.bounds or bool(np.any(self.counts < earlier.counts))


@dataclass(frozen=True, slots=True)
class Quantile:
    """`at_least`: it lies in the last bucket, which has no end; all that is known is that it is not below `value`."""

    value: float
    at_least: bool = False


def make_buckets(by_bound: Mapping[float, float], num: float | None, total: float | None) -> Buckets | None:
    """From the lines of one histogram; None where they make none. A sum that is not told, or not a number, is NaN."""
    told = {bound: count for bound, count in by_bound.items() if not isnan(bound)}
    if num is not None:
        told.setdefault(inf, num)
    counts = [told[bound] for bound in sorted(told)]
    if inf not in told or len(told) > MAX_BUCKETS or not all(0 <= count < inf for count in counts):
        return None
    # A page that was written while the engine counted may have a bucket below the one before it.
    rising = np.maximum.accumulate(np.array(counts, np.float64))
    return Buckets(tuple(sorted(told)), rising, float("nan") if total is None else total)


def quantile(buckets: Buckets, q: float) -> Quantile | None:
    """Values are taken as spread evenly in their bucket, the first one from 0 (or its bound, where that is below 0).
    None: nothing was counted.
    """
    assert 0 <= q <= 1, "a quantile is between 0 and 1"
    if not buckets.num > 0:
        return None
    rank = q * buckets.num
    at = int(np.searchsorted(buckets.counts, rank, side="left"))
    # Empty buckets before the first value hold no quantile.
    at = max(at, int(np.searchsorted(buckets.counts, 0, side="right")))
    if at == len(buckets.bounds) - 1:
        return Quantile(buckets.bounds[-2], at_least=True) if at else None
    return Quantile(_within(buckets, at, rank))


def _within(buckets: Buckets, at: int, rank: float) -> float:
    upper = buckets.bounds[at]
    lower, below = (buckets.bounds[at - 1], float(buckets.counts[at - 1])) if at else (min(0.0, upper), 0.0)
    inside = float(buckets.counts[at]) - below
    return lower + (upper - lower) * max(0.0, rank - below) / inside


def mean(buckets: Buckets) -> float | None:
    """None: nothing was counted, or no sum was told."""
    return buckets.total / buckets.num if buckets.num > 0 and not isnan(buckets.total) else None


def add_all(histograms: Sequence[Buckets]) -> Buckets | None:
    """Of several engines; None where there are none, or where their buckets differ, so that no sum can be told."""
    if not histograms or any(one.bounds != other.bounds for one, other in pairwise(histograms)):
        return None
    first, *rest = histograms
    for other in rest:
        first = first + other
    return first
