"""The course of signals over a stretch of time, as charts draw it: a value a bucket, and a hole where nothing was told.

A counter is its rate, a histogram its quantiles with what fell into which bucket (for heatmaps), a ratio is divided
bucket by bucket. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, isfinite
from statistics import median
from typing import Final

from kvxray_backend.metrics.minute import Counted, Spread, Stood, Stretch, Told, quantile
from kvxray_backend.metrics.ratios import RATIOS, ratio
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.signal_history import Timed

MAX_BUCKETS: Final = 1_500
POINTS: Final = 240
STEPS_S: Final = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Value = float | None


@dataclass(slots=True)
class Line:
    """`values`: of a gauge its mean, of a counter its rate a second, of a histogram its median. `more`: other lines by
    name; `parts`: the same values by part. `total`: what a counter grew by in all. `heat`: by bounds of a histogram's
    bucket, how many values fell into it in each bucket of time.
    """

    kind: str
    unit: str
    values: list[Value]
    more: dict[str, list[Value]] = field(default_factory=dict)
    parts: dict[str, list[Value]] = field(default_factory=dict)
    total: float | None = None
    heat: list[tuple[float, float | None, list[float]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Course:
    """`times_s`: when each bucket begins."""

    step_s: int
    times_s: list[int]
    lines: dict[str, Line]


def step_for(told: Sequence[Timed], from_s: float, to_s: float) -> int:
    """About as many buckets as a chart has room for, none of them shorter than the time between two readings."""
    apart = [later.at_s - one.at_s for one, later in zip(told, told[1:], strict=False)]
    least = max((to_s - from_s) / POINTS, median(apart) if apart else 0.0)
    return next((step for step in STEPS_S if step >= least), ceil(least / 86_400) * 86_400)


def course(told: Sequence[Timed], names: Sequence[str], from_s: float, to_s: float, step_s: int) -> Course:
    """names: of signals and ratios that there are."""
    first = int(from_s) // step_s * step_s
    num = max(1, ceil((to_s - first) / step_s))
    assert num <= MAX_BUCKETS, "whoever asks keeps to so many buckets"
    buckets: list[Stretch | None] = [None] * num
    for one in told:
        # What was told at the end of a bucket happened in it.
        at = ceil((one.at_s - first) / step_s) - 1
        if 0 <= at < num:
            bucket = buckets[at] = buckets[at] or Stretch()
            bucket.add(one.stretch)
    lines = {name: _line(name, buckets) for name in names}
    return Course(step_s, [first + step_s * at for at in range(num)], lines)


def _line(name: str, buckets: Sequence[Stretch | None]) -> Line:
    if name in RATIOS:
        found = RATIOS[name]
        return Line("ratio", found.unit, [None if one is None else ratio(found, one) for one in buckets])
    table = SIGNALS[name]
    whole = [None if one is None else one.whole(name) for one in buckets]
    line = Line(table.kind, table.unit, [main_value(told) for told in whole])
    line.parts = _parts(name, buckets)
    if table.kind == "gauge":
        line.more["highest"] = [told.highest if isinstance(told, Stood) else None for told in whole]
    elif table.kind == "counter":
        amounts = [told.amount for told in whole if isinstance(told, Counted)]
        line.total = sum(amounts) if amounts else None
    else:
        spreads = [told if isinstance(told, Spread) else None for told in whole]
        line.more = {name: _each(spreads, lambda one, q=q: quantile(one, q)) for name, q in QUANTILES.items()}  # type: ignore[misc]
        line.more["rate"] = _each(spreads, lambda one: one.num / one.seconds if one.seconds > 0 else None)
        line.more["total_rate"] = _each(spreads, lambda one: one.total / one.seconds if one.seconds > 0 else None)
        line.more["mean"] = _each(spreads, lambda one: one.mean)
        line.heat = _heat(spreads)
    return line


def main_value(told: Told | None) -> Value:
    """The one number that stands for it; None: nothing was told, or nothing was counted."""
    if isinstance(told, Stood):
        return told.mean
    if isinstance(told, Counted):
        return told.amount / told.seconds if told.seconds > 0 else None
    return quantile(told, 0.5) if told is not None else None


def _parts(name: str, buckets: Sequence[Stretch | None]) -> dict[str, list[Value]]:
    parts = dict.fromkeys(part for one in buckets if one is not None for part, _ in one.parts(name) if part)
    return {
        part: [None if one is None else main_value(one.told.get((name, part))) for one in buckets]
        for part in sorted(parts)
    }


def _each(spreads: Sequence[Spread | None], value: Callable[[Spread], Value]) -> list[Value]:
    told = (None if one is None else value(one) for one in spreads)
    return [None if one is None or not isfinite(one) else one for one in told]


def _heat(spreads: Sequence[Spread | None]) -> list[tuple[float, float | None, list[float]]]:
    """Rows from the lowest bucket up; a bucket without an end has none."""
    bounds: Mapping[tuple[float, float], None] = dict.fromkeys(
        bucket for one in spreads if one is not None for bucket in one.num_by_bucket
    )
    return [
        (
            bucket[0],
            None if bucket[1] == inf else bucket[1],
            [0.0 if one is None else one.num_by_bucket.get(bucket, 0.0) for one in spreads],
        )
        for bucket in sorted(bounds)
    ]
