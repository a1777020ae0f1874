"""What signals told over a stretch of time, small enough to keep: how gauges stood, what counters and histograms grew
by. One reading tells such a stretch; stretches add up to minutes, and minutes to whatever a chart draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isnan, nan

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.histograms import Buckets
from kvxray_backend.metrics.series import Grown
from kvxray_backend.metrics.signals import SIGNALS

Key = tuple[str, str]
"""A signal and its part, "" for the whole of one that has none."""


@dataclass(slots=True)
class Stood:
    """A gauge, over `num` readings: their sum, the lowest and the highest."""

    total: float
    lowest: float
    highest: float
    num: int = 1

    @property
    def mean(self) -> float:
        return self.total / self.num

    def add(self, later: Stood) -> None:
        self.total, self.num = self.total + later.total, self.num + later.num
        self.lowest, self.highest = min(self.lowest, later.lowest), max(self.highest, later.highest)


@dataclass(slots=True)
class Counted:
    """A counter: what it grew by, over how many seconds."""

    amount: float
    seconds: float

    def add(self, later: Counted) -> None:
        self.amount, self.seconds = self.amount + later.amount, self.seconds + later.seconds


@dataclass(slots=True)
class Spread:
    """A histogram: how many values fell between which bounds, and their sum (NaN: not told). Buckets that got nothing
    are left out, so stretches whose engines had other buckets add up all the same.
    """

    seconds: float
    total: float
    num_by_bucket: dict[tuple[float, float], float]

    @property
    def num(self) -> float:
        return sum(self.num_by_bucket.values())

    @property
    def mean(self) -> float | None:
        return self.total / self.num if self.num > 0 and not isnan(self.total) else None

    def add(self, later: Spread) -> None:
        self.seconds, self.total = self.seconds + later.seconds, self.total + later.total
        _add_buckets(self.num_by_bucket, later.num_by_bucket)


Told = Stood | Counted | Spread


@dataclass(slots=True)
class Stretch:
    """What was told in it, by signal and part."""

    told: dict[Key, Told] = field(default_factory=dict)

    def add(self, later: Stretch) -> None:
        """What came after it. What is of another kind than before (the table of signals changed) takes its place."""
        for key, value in later.told.items():
            before = self.told.get(key)
            if before is None or type(before) is not type(value):
                self.told[key] = _copy(value)
            else:
                before.add(value)  # type: ignore[arg-type]

    def parts(self, signal: str) -> Iterator[tuple[str, Told]]:
        return ((part, value) for (name, part), value in self.told.items() if name == signal)

    def whole(self, signal: str) -> Told | None:
        """All its parts together; None: it was not told."""
        return together(signal, [value for _, value in self.parts(signal)])


def latest(book: MetricsBook) -> Stretch:
    """What the last page told since the one before; engines put together."""
    found: dict[Key, list[Told]] = {}
    for signal, part, value in book.latest():
        found.setdefault((signal, part), []).append(_told(value))
    made = {key: together(key[0], values) for key, values in found.items()}
    return Stretch({key: value for key, value in made.items() if value is not None})


def together(signal: str, values: list[Told]) -> Told | None:
    """Of the same time: engines, or parts. A gauge is their sum or the largest, as the table says."""
    if not values:
        return None
    if len(values) == 1:
        return _copy(values[0])
    stood = [value for value in values if isinstance(value, Stood)]
    if stood:
        return _stood_together(signal, stood)
    counted = [value for value in values if isinstance(value, Counted)]
    if counted:
        return Counted(sum(one.amount for one in counted), max(one.seconds for one in counted))
    return _spread_together([value for value in values if isinstance(value, Spread)])


def _stood_together(signal: str, values: list[Stood]) -> Stood:
    """As many readings as the one that was read most."""
    num = max(one.num for one in values)
    if SIGNALS[signal].combine == "max":
        means = max(one.mean for one in values)
        return Stood(means * num, max(one.lowest for one in values), max(one.highest for one in values), num)
    return Stood(
        sum(one.mean for one in values) * num,
        sum(one.lowest for one in values),
        sum(one.highest for one in values),
        num,
    )


def _spread_together(values: list[Spread]) -> Spread:
    whole = Spread(max(one.seconds for one in values), sum(one.total for one in values), {})
    for one in values:
        _add_buckets(whole.num_by_bucket, one.num_by_bucket)
    return whole


def _add_buckets(into: dict[tuple[float, float], float], more: dict[tuple[float, float], float]) -> None:
    for bucket, num in more.items():
        into[bucket] = into.get(bucket, 0.0) + num


def _told(value: float | Grown[float] | Grown[Buckets]) -> Told:
    if isinstance(value, Grown):
        if isinstance(value.amount, Buckets):
            return Spread(value.seconds, value.amount.total, dict(_filled(value.amount)))
        return Counted(value.amount, value.seconds)
    return Stood(value, value, value)


def _filled(buckets: Buckets) -> Iterable[tuple[tuple[float, float], float]]:
    below = 0.0
    lower = min(0.0, buckets.bounds[0])
    for upper, count in zip(buckets.bounds, buckets.counts.tolist(), strict=True):
        if count > below:
            yield (lower, upper), count - below
        below, lower = max(below, count), upper


def _copy(value: Told) -> Told:
    if isinstance(value, Stood):
        return Stood(value.total, value.lowest, value.highest, value.num)
    if isinstance(value, Counted):
        return Counted(value.amount, value.seconds)
    return Spread(value.seconds, value.total, dict(value.num_by_bucket))


def quantile(spread: Spread, q: float) -> float | None:
    """Values are taken as spread evenly in their bucket; of one without an end its beginning is told. None: nothing was
    counted.
    """
    rank, below = q * spread.num, 0.0
    if spread.num <= 0:
        return None
    value = nan
    for (lower, upper), num in sorted(spread.num_by_bucket.items()):
        value = lower if upper == float("inf") else lower + (upper - lower) * min(1.0, max(0.0, rank - below) / num)
        below += num
        if below >= rank:
            break
    return value
