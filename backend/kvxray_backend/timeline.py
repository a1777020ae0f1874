"""The figures of the page over a stretch of time, from the rollups: few enough points to draw, none of them smoothed
away. Pure but for the reads.

A point is a bucket of whole rollups: counts are rates over it, gauges its last, lowest and highest reading, ratios are
made from the bucket's sums, so that a hit rate has its true denominator. A bucket in which nothing happened has no
point: rates were 0 and gauges as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kvxray_storage.database import Database
from kvxray_storage.histograms import add_up, quantile_us
from kvxray_storage.rollups import ColumnsByName, rollups
from numpy.typing import NDArray

MAX_POINTS: Final = 2_000
EVICTIONS: Final = ("evictions_for_allocation", "evictions_explicit", "evictions_for_capacity", "evictions_other")
RATES: Final = {
    "allocations_per_s": ("allocations",),
    "stores_per_s": ("blocks_cached",),
    "evictions_per_s": EVICTIONS,
    "preemptions_per_s": ("preemptions",),
    "tokens_per_s": ("tokens_generated",),
}
GAUGES: Final = ("unknown", "empty", "free", "cached", "active", "shared", "used", "leaked", "running", "waiting")
RATIOS: Final = {"hit_rate": ("tokens_hit", "tokens_queried")}
SLOT_RATIO: Final = ("empty_slots_last", "held_slots_last")
MEDIANS: Final = {"ttft_p50_s": "ttft_histogram", "itl_p50_s": "itl_histogram"}
SERIES: Final = ("internal_fragmentation", *GAUGES, *RATES, *RATIOS, *MEDIANS)

_NS_A_MS: Final = 1_000_000
_WANTED: Final = (
    "usable_blocks",
    *(name for parts in RATES.values() for name in parts),
    *(name for parts in RATIOS.values() for name in parts),
    *(f"{name}_{reading}" for name in GAUGES for reading in ("last", "min", "max")),
    *SLOT_RATIO,
    *MEDIANS.values(),
)

F8 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Buckets:
    """`t_s`: when each bucket begins, growing within each `epoch`. `series`: by name one value a bucket, NaN = nothing
    to say; gauges also have `_min` and `_max`.
    """

    seconds: int
    t_s: NDArray[np.int64]
    epoch: NDArray[np.int64]
    series: dict[str, F8]


def timeline(database: Database, source: str, t0_ns: int, t1_ns: int, points: int) -> Buckets:
    """At most about `points` buckets over the stretch, and one more for each change of epoch."""
    seconds = bucket_seconds(t1_ns - t0_ns, points)
    kept = 60 if seconds % 60 == 0 else 1
    return into_buckets(rollups(database, source, t0_ns, t1_ns, kept, _WANTED), seconds)


def bucket_seconds(span_ns: int, points: int) -> int:
    """The shortest bucket that needs no more points: whole seconds, beyond a minute whole minutes.

    A moment is all of its millisecond, so a stretch between two is up to one longer than it is written.
    """
    needed = max(1, -(-(span_ns // _NS_A_MS) // (points * 1000)))
    return needed if needed < 60 else -(-needed // 60) * 60


def into_buckets(columns: ColumnsByName, seconds: int) -> Buckets:
    """Rows in order of time put together to buckets, epochs apart."""
    begin, epoch = columns["t_s"] // seconds * seconds, columns["epoch"]
    order = np.lexsort((columns["t_s"], begin, epoch))
    columns = {name: values[order] for name, values in columns.items()}
    begin, epoch = begin[order], epoch[order]
    first = np.flatnonzero(np.append(True, (begin[1:] != begin[:-1]) | (epoch[1:] != epoch[:-1]))[: len(begin)])
    if not len(first):
        return Buckets(seconds, begin, epoch, {name: np.zeros(0) for name in SERIES})
    series = _rates(columns, first, seconds) | _ratios(columns, first) | _gauges(columns, first)
    series |= _medians(columns, first)
    return Buckets(seconds, begin[first], epoch[first], series)


def _rates(columns: ColumnsByName, first: NDArray[np.intp], seconds: int) -> dict[str, F8]:
    made: dict[str, F8] = {}
    for name, parts in RATES.items():
        counted = np.sum([np.add.reduceat(columns[part], first) for part in parts], axis=0)
        made[name] = counted / seconds
    return made


def _ratios(columns: ColumnsByName, first: NDArray[np.intp]) -> dict[str, F8]:
    made = {}
    for name, (part, whole) in RATIOS.items():
        made[name] = divided(np.add.reduceat(columns[part], first), np.add.reduceat(columns[whole], first))
    last = _last(first, len(columns["t_s"]))
    empty, held = (columns[name][last] for name in SLOT_RATIO)
    return made | {"internal_fragmentation": divided(empty, held)}


def _gauges(columns: ColumnsByName, first: NDArray[np.intp]) -> dict[str, F8]:
    last = _last(first, len(columns["t_s"]))
    made: dict[str, F8] = {}
    for name in GAUGES:
        made[name] = columns[f"{name}_last"][last]
        # Of the readings that there were; NaN only where there was none.
        made[f"{name}_min"] = np.fmin.reduceat(columns[f"{name}_min"], first)
        made[f"{name}_max"] = np.fmax.reduceat(columns[f"{name}_max"], first)
    return made | {"usable_blocks": columns["usable_blocks"][last]}


def _medians(columns: ColumnsByName, first: NDArray[np.intp]) -> dict[str, F8]:
    made = {}
    for name, column in MEDIANS.items():
        parts = np.split(columns[column], first[1:])
        found = [quantile_us(add_up(part), 0.5) for part in parts]
        made[name] = np.array([np.nan if us is None else us / 1e6 for us in found])
    return made


def _last(first: NDArray[np.intp], num_rows: int) -> NDArray[Any]:
    return np.append(first[1:], num_rows) - 1


def divided(part: NDArray[Any], whole: NDArray[Any]) -> F8:
    """NaN where the denominator is 0 or not known: no data."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: F8 = np.where(whole > 0, part / whole, np.nan)
    return ratio
