"""The course of the figures over a stretch of time, as charts draw it: a point a bucket and no holes between, each
figure over the window that the tiles tell it over, with its lowest and highest in the bucket. Pure but for the reads.

Made from rollups, as `timeline.py` is, which tells what happened in each bucket; here each second is told as a page
would have told it then. Where seconds are kept no longer, minutes take their place, and a window is a minute. However
long the stretch, so many steps are made at most: those of years are longer, and windows with them.

A second without a rollup is one in which nothing happened: counts were 0 and gauges as before, until an epoch ends.
What has no value (a hit rate where nothing was looked up) is NaN, which no chart may join over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.histograms import add_up, quantile_us
from kvxray_storage.rollups import ColumnsByName, rollups
from numpy.typing import NDArray

from kvxray_backend.timeline import F8, GAUGES, RATES, RATIOS, SLOT_RATIO, bucket_seconds, divided
from kvxray_backend.windows import HIT_WINDOW_NS, RATE_WINDOW_NS

LATENCIES: Final = {"ttft": "ttft_histogram", "itl": "itl_histogram"}
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}

_NS: Final = 1_000_000_000
_MINUTE_S: Final = 60
MAX_STEPS: Final = 1 << 18
"""Of an epoch: half a year in minutes, some 100 MB while they are told."""
_COUNTED: Final = tuple(part for parts in (*RATES.values(), *RATIOS.values()) for part in parts)
_WANTED: Final = (
    "usable_blocks",
    *_COUNTED,
    *(f"{name}_{reading}" for name in GAUGES for reading in ("last", "min", "max")),
    *SLOT_RATIO,
    *LATENCIES.values(),
)

I8 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """Seconds over which each kind of figure is told."""

    rate_s: int
    hit_rate_s: int
    latency_s: int

    @classmethod
    def of(cls, bucket_s: int, step_s: int) -> Windows:
        """Latencies are told at the end of each bucket only, over whole buckets."""
        rate_s, hit_s = (max(step_s, window // _NS) for window in (RATE_WINDOW_NS, HIT_WINDOW_NS))
        return cls(rate_s, hit_s, -(-hit_s // bucket_s) * bucket_s)


@dataclass(frozen=True, slots=True)
class Course:
    """`t_s`: when each bucket begins, without holes within each `epoch`. `series`: by name one value a bucket, as it
    was at the end of it, NaN = nothing to say; `_min` and `_max` are the lowest and highest in it.
    """

    seconds: int
    windows: Windows
    t_s: I8
    epoch: I8
    series: dict[str, F8]


def course(database: Database, source: str, t0_ns: int, t1_ns: int, points: int) -> Course:
    """At most about `points` buckets over the stretch, and one more for each change of epoch."""
    seconds = bucket_seconds(t1_ns - t0_ns, points)
    kept = _MINUTE_S if seconds % _MINUTE_S == 0 else 1
    step = step_seconds(t1_ns - t0_ns, seconds, kept)
    windows = Windows.of(seconds, step)
    # What the windows of the first bucket reach back over.
    begin_s = t0_ns // _NS // seconds * seconds
    lead_ns = (begin_s - max(windows.hit_rate_s, windows.latency_s)) * _NS
    columns = rollups(database, source, lead_ns, t1_ns, kept, _WANTED)
    starts = {row.epoch: row.started_ns // _NS for row in history.epochs(database, source)}
    return into_course(columns, starts, begin_s, seconds, step)


def step_seconds(span_ns: int, bucket_s: int, kept_s: int) -> int:
    """What each bucket is told in: rows of `kept_s` as they are, unless those of so long a stretch are too many."""
    rows = bucket_s // kept_s
    wanted = -(-(span_ns // _NS + 2 * bucket_s) // (kept_s * MAX_STEPS))
    # A step begins with a bucket, so that none is of two.
    return kept_s * next((n for n in range(wanted, math.isqrt(rows) + 1) if rows % n == 0), rows)


def into_course(columns: ColumnsByName, starts: dict[int, int], begin_s: int, seconds: int, step: int) -> Course:
    """Buckets from `begin_s` on, in steps of so many seconds. `starts`: the second each epoch began."""
    windows = Windows.of(seconds, step)
    parts = []
    for epoch in np.unique(columns["epoch"]).tolist():
        of_epoch = columns["epoch"] == epoch
        rows = {name: values[of_epoch] for name, values in columns.items()}
        started = starts.get(epoch, int(rows["t_s"].min()))
        parts.append(_of_epoch(rows, epoch, started, windows, begin_s, seconds, step))
    if not parts:
        empty = np.zeros(0, np.int64)
        return Course(seconds, windows, empty, empty, {})
    series = {name: np.concatenate([part.series[name] for part in parts]) for name in parts[0].series}
    t_s, epochs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("t_s", "epoch"))
    return Course(seconds, windows, t_s, epochs, series)


def _of_epoch(
    rows: ColumnsByName, epoch: int, started_s: int, windows: Windows, begin_s: int, seconds: int, step: int
) -> Course:
    grid = Grid(rows["t_s"], step, seconds)
    # Where the engine's clock was set back to before its epoch began, it has been watched since the first row of then.
    since = np.where(grid.t_s >= started_s // step * step, started_s, min(started_s, int(rows["t_s"].min())))
    watched = grid.t_s - since + step
    series: dict[str, F8] = {}
    for name, values in {**_rates(rows, grid, windows, watched), **_ratios(rows, grid, windows)}.items():
        series |= grid.readings(name, values, values, values)
    for name in GAUGES:
        last, low, high = (rows[f"{name}_{reading}"] for reading in ("last", "min", "max"))
        held = grid.held(last)
        series |= grid.readings(name, held, grid.within(np.fmin, low, held), grid.within(np.fmax, high, held))
    fragmentation = grid.held(divided(*(rows[name] for name in SLOT_RATIO)))
    series |= grid.readings("internal_fragmentation", fragmentation, fragmentation, fragmentation)
    series["usable_blocks"] = grid.held(rows["usable_blocks"])[grid.last]
    series |= _latencies(rows, grid, windows.latency_s // seconds)
    shown = grid.bucket_t_s >= begin_s
    epochs = np.full(int(shown.sum()), epoch, np.int64)
    return Course(seconds, windows, grid.bucket_t_s[shown], epochs, {name: of[shown] for name, of in series.items()})


class Grid:
    """Every step from the first row of an epoch to its last, and the buckets that they make.

    `t_s`: of each; `bucket_t_s`: of each bucket; `first` and `last`: where its steps begin and end.
    """

    def __init__(self, row_t_s: I8, step: int, seconds: int) -> None:
        begin_s = int(row_t_s.min()) // seconds * seconds
        self.step = step
        self.slot = (row_t_s - begin_s) // step
        self.t_s = begin_s + step * np.arange(int(self.slot.max()) + 1, dtype=np.int64)
        self.first = np.arange(0, len(self.t_s), seconds // step)
        self.last = np.append(self.first[1:], len(self.t_s)) - 1
        self.bucket_t_s = self.t_s[self.first]
        self._row = np.full(len(self.t_s), -1)
        self._row[self.slot] = np.arange(len(row_t_s))
        self._row_before = np.maximum.accumulate(np.where(self._row >= 0, np.arange(len(self.t_s)), -1))

    def counted(self, values: NDArray[Any]) -> F8:
        """Counts of rows: 0 where there is none."""
        made = np.zeros(len(self.t_s))
        np.add.at(made, self.slot, values)
        return made

    def held(self, values: NDArray[Any]) -> F8:
        """Readings of rows, the last of each step: those before where there is none; NaN before the first."""
        before = np.where(self._row_before >= 0, self._row[self._row_before], 0)
        return np.where(self._row_before >= 0, np.asarray(values, np.float64)[before], np.nan)

    def within(self, extreme: np.ufunc, values: NDArray[Any], quiet: F8) -> F8:
        """The lowest or highest reading of each step; where there is none, what `quiet` says."""
        made = np.full(len(self.t_s), np.nan)
        extreme.at(made, self.slot, values)
        return np.where(self._row >= 0, made, quiet)

    def readings(self, name: str, last: F8, low: F8, high: F8) -> dict[str, F8]:
        """The last, lowest and highest of each bucket; NaN only where there was none."""
        return {
            name: last[self.last],
            f"{name}_min": np.fmin.reduceat(low, self.first),
            f"{name}_max": np.fmax.reduceat(high, self.first),
        }

    def over(self, counts: F8, window: int) -> F8:
        """The sum over the last `window` steps, at each of them."""
        total = np.append(0.0, np.cumsum(counts))
        ends = np.arange(1, len(counts) + 1)
        within: F8 = total[ends] - total[np.maximum(ends - window, 0)]
        return within


def _rates(rows: ColumnsByName, grid: Grid, windows: Windows, watched: I8) -> dict[str, F8]:
    """`watched`: seconds of the epoch at the end of each; no window reaches further back."""
    span = np.clip(watched, grid.step, windows.rate_s)
    made = {}
    for name, parts in RATES.items():
        counts = grid.counted(np.sum([rows[part] for part in parts], axis=0))
        rate = grid.over(counts, windows.rate_s // grid.step) / span
        made[name] = np.where((watched > 0) | (np.cumsum(counts) > 0), rate, np.nan)
    return made


def _ratios(rows: ColumnsByName, grid: Grid, windows: Windows) -> dict[str, F8]:
    window = windows.hit_rate_s // grid.step
    sums = {name: [grid.over(grid.counted(rows[part]), window) for part in pair] for name, pair in RATIOS.items()}
    return {name: divided(part, whole) for name, (part, whole) in sums.items()}


def _latencies(rows: ColumnsByName, grid: Grid, window: int) -> dict[str, F8]:
    """Quantiles of what the last `window` buckets held, at the end of each."""
    bucket = np.searchsorted(grid.first, grid.slot, side="right") - 1
    made = {}
    for name, column in LATENCIES.items():
        counts = np.zeros((len(grid.first) + 1, len(add_up(()))), np.int64)
        for at, data in zip(bucket.tolist(), rows[column], strict=True):
            if data:
                counts[at + 1] += add_up((data,))
        total = np.cumsum(counts, axis=0)
        ends = np.arange(1, len(total))
        within = total[ends] - total[np.maximum(ends - window, 0)]
        for quantile, share in QUANTILES.items():
            made[f"{name}_{quantile}_s"] = _seconds(quantile_us(of_bucket, share) for of_bucket in within)
    return made


def _seconds(microseconds: Iterable[float | None]) -> F8:
    return np.array([np.nan if us is None else us / 1e6 for us in microseconds])
