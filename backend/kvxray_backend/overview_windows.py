"""What the rollups tell of the minutes, the hour and the day before a moment: what no fold of the present remembers.

Pure but for the reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from kvxray_storage.database import Database
from kvxray_storage.histograms import add_up, encode_histogram, quantile_us
from kvxray_storage.records import EpochKey
from kvxray_storage.rollups import ColumnsByName, rollups
from numpy.typing import NDArray

from kvxray_backend.overview_gauges import GAUGES_READ, gauges

_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400
_SECONDS: Final = (
    "preemptions", "requests_finished", "requests_aborted", "requests_failed", "ttft_histogram", "itl_histogram",
    *GAUGES_READ,
)  # fmt: skip
_MINUTES: Final = ("tokens_queried", "tokens_hit", "ttft_histogram")


@dataclass(frozen=True, slots=True)
class Before:
    """Of the time before a moment; None = nothing to say. Ratios are shares of the usable blocks."""

    preemptions_10m: int | None = None
    finished_10m: int | None = None
    waiting_low: int | None = None
    used_low: float | None = None
    used_high: float | None = None
    used_mean_5m: float | None = None
    used_max_5m: float | None = None
    itl_p50_s: float | None = None
    itl_p99_s: float | None = None
    ttft_5m_s: float | None = None
    first_tokens_5m: int | None = None
    ttft_hour_s: float | None = None
    first_tokens_hour: int | None = None
    hit_rate_30m: float | None = None
    queried_30m: int | None = None
    hit_rate_before: float | None = None
    hit_rate_day: float | None = None
    watched_s: int | None = None


def before(database: Database, key: EpochKey, now_ns: int) -> Before:
    """What is stored of the epoch up to that moment, in whole seconds: that of the moment is the last."""
    now_s = now_ns // _NS
    seconds = rollups(database, key, now_ns - 600 * _NS, now_ns, 1, (*_SECONDS, *_MINUTES))
    minutes = rollups(database, key, now_ns - _DAY_S * _NS, now_ns, 60, _MINUTES)
    if len(minutes["t_s"]) and minutes["t_s"][-1] > now_s - 60:
        minutes = _with_the_last(minutes, seconds)
    longer = dict[str, Any]()
    if len(minutes["t_s"]):
        first_s = _first_second(database, key, int(minutes["t_s"][0]))
        longer = _of_minutes(minutes, now_s, min(_DAY_S, now_s - first_s))
    if not len(seconds["t_s"]):
        return Before(**longer)
    return Before(**_counts(seconds), **gauges(seconds, now_s), **longer, **_recent(seconds, now_s))


def _first_second(database: Database, key: EpochKey, minute_s: int) -> int:
    """The first of a minute in which something happened; its beginning where its seconds are not kept."""
    seconds = rollups(database, key, minute_s * _NS, (minute_s + 59) * _NS, 1, ())["t_s"]
    return int(seconds[0]) if len(seconds) else minute_s


def _with_the_last(minutes: ColumnsByName, seconds: ColumnsByName) -> ColumnsByName:
    """The minutes, the last of them as far as these seconds go: its row may tell of what came after the moment."""
    last = _since(seconds, int(minutes["t_s"][-1]))
    sums = {name: np.sum(seconds[name][last]) for name in ("tokens_queried", "tokens_hit")}
    told = {name: np.append(minutes[name][:-1], value) for name, value in sums.items()}
    histogram = np.empty(1, object)
    histogram[0] = encode_histogram(add_up(seconds["ttft_histogram"][last]))
    return minutes | told | {"ttft_histogram": np.append(minutes["ttft_histogram"][:-1], histogram)}


def _counts(rows: ColumnsByName) -> dict[str, int]:
    ended = sum(int(rows[f"requests_{how}"].sum()) for how in ("finished", "aborted", "failed"))
    return {"preemptions_10m": int(rows["preemptions"].sum()), "finished_10m": ended}


def _recent(rows: ColumnsByName, now_s: int) -> dict[str, Any]:
    itl = add_up(rows["itl_histogram"][_since(rows, now_s - 60)])
    ttft = add_up(rows["ttft_histogram"][_since(rows, now_s - 300)])
    return {
        "itl_p50_s": _quantile(itl, 0.5),
        "itl_p99_s": _quantile(itl, 0.99),
        "ttft_5m_s": _quantile(ttft, 0.5),
        "first_tokens_5m": int(ttft.sum()),
    }


def _of_minutes(rows: ColumnsByName, now_s: int, watched_s: int) -> dict[str, Any]:
    """Halves of hours and the hour before the last five minutes, in whole minutes. watched_s: since the first event."""
    half, hour = _since(rows, now_s - 1800), _between(rows, now_s - 3900, now_s - 360)
    ttft = add_up(rows["ttft_histogram"][hour])
    return {
        "watched_s": watched_s,
        "queried_30m": int(rows["tokens_queried"][half].sum()),
        "hit_rate_30m": _hit_rate(rows, half),
        "hit_rate_before": _hit_rate(rows, _between(rows, now_s - 5400, now_s - 3600)),
        "hit_rate_day": _hit_rate(rows, slice(0, len(rows["t_s"]))) if watched_s >= 3600 else None,
        "ttft_hour_s": _quantile(ttft, 0.5),
        "first_tokens_hour": int(ttft.sum()) if watched_s > 360 else None,
    }


def _since(rows: ColumnsByName, t_s: int) -> slice:
    return slice(int(np.searchsorted(rows["t_s"], t_s)), len(rows["t_s"]))


def _between(rows: ColumnsByName, t0_s: int, t1_s: int) -> slice:
    return slice(*(int(at) for at in np.searchsorted(rows["t_s"], [t0_s, t1_s])))


def _hit_rate(rows: ColumnsByName, stretch: slice) -> float | None:
    queried = int(rows["tokens_queried"][stretch].sum())
    return int(rows["tokens_hit"][stretch].sum()) / queried if queried else None


def _quantile(counts: NDArray[np.int64], share: float) -> float | None:
    us = quantile_us(counts, share)
    return us / 1e6 if us is not None else None
