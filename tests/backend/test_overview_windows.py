"""What the rollups tell of the time before a moment, from rows whose sums can be done by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from kvxray_backend import overview_windows
from kvxray_backend.overview_windows import Before, before
from kvxray_storage.histograms import buckets_of, encode_histogram

NOW = 100_000
SECOND = 1_000_000_000


def durations(seconds: float, number: int) -> bytes:
    """A histogram of so many tokens that took that long."""
    counts = np.zeros(160, np.int64)
    counts[int(buckets_of(np.array([int(seconds * 1e6)]))[0])] = number
    return encode_histogram(counts)


EMPTY = durations(1, 0)
QUIET: dict[str, Any] = {
    "preemptions": 0, "requests_finished": 0, "requests_aborted": 0, "requests_failed": 0, "usable_blocks": 100,
    "used_last": 50, "used_min": 50, "used_max": 50, "waiting_last": 0, "waiting_min": 0, "tokens_queried": 0,
    "tokens_hit": 0, "ttft_histogram": EMPTY, "itl_histogram": EMPTY,
}  # fmt: skip

Rows = dict[int, dict[str, Any]]


class Told:
    """Stands in for the rollups: rows by their second, `seconds` and `minutes`."""

    def __init__(self, seconds: Rows, minutes: Rows) -> None:
        self.rows = {1: seconds, 60: minutes}

    def rollups(self, _db: object, _key: object, t0_ns: int, t1_ns: int, seconds: int, names: Iterable[str]) -> Any:
        at = [t_s for t_s in sorted(self.rows[seconds]) if t0_ns // SECOND <= t_s <= t1_ns // SECOND]
        told = [QUIET | self.rows[seconds][t_s] for t_s in at]
        columns: dict[str, Any] = {"t_s": np.array(at, np.int64)}
        for name in names:
            kind: Any = object if "histogram" in name else np.float64 if name.startswith(("us", "wait")) else np.int64
            columns[name] = np.array([row[name] for row in told] + [None], object)[:-1].astype(kind)
        return columns


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of(seconds: Rows | None = None, minutes: Rows | None = None) -> Before:
        monkeypatch.setattr(overview_windows, "rollups", Told(seconds or {}, minutes or {}).rollups)
        return before(None, None, NOW * SECOND)  # type: ignore[arg-type]

    return of


def test_nothing_stored_says_nothing(window: Any) -> None:
    assert window() == Before()


def test_ten_minutes_are_added_up_whatever_way_requests_ended(window: Any) -> None:
    ended = {"requests_finished": 5, "requests_aborted": 2, "requests_failed": 1}
    found = window({NOW - 601: {"preemptions": 9}, NOW - 500: {"preemptions": 4, **ended}, NOW - 1: ended})
    assert (found.preemptions_10m, found.finished_10m) == (4, 16)


def test_the_lowest_and_highest_of_a_minute_need_its_beginning(window: Any) -> None:
    row = {"waiting_min": 2, "used_min": 30, "used_max": 90}
    found = window({NOW - 55: row, NOW - 3: {"waiting_min": 1}})
    assert (found.waiting_low, found.used_low, found.used_high) == (1, 0.3, 0.9)
    late = window({NOW - 40: row, NOW - 3: {"waiting_min": 1}})
    assert (late.waiting_low, late.used_low, late.used_high) == (None, None, None)
    assert late.used_max_5m == 0.9
    unknown = window({NOW - 55: row, NOW - 3: {"waiting_min": np.nan, "used_min": np.nan}})
    assert (unknown.waiting_low, unknown.used_low, unknown.used_high) == (None, None, 0.9)


def test_what_was_read_before_stands_until_the_next_reading(window: Any) -> None:
    before = {"waiting_last": 3, "used_last": 95, "used_max": 99, "used_min": 10}
    found = window({NOW - 400: before, NOW - 8: {"waiting_min": 4, "used_last": 20, "used_min": 20, "used_max": 60}})
    assert (found.waiting_low, found.used_low, found.used_high) == (3, 0.2, 0.95)
    assert (found.used_max_5m, found.used_mean_5m) == (0.95, pytest.approx((292 * 0.95 + 9 * 0.2) / 301))
    quiet = window({NOW - 400: before})
    assert (quiet.waiting_low, quiet.used_low, quiet.used_high, quiet.used_mean_5m) == (3, 0.95, 0.95, 0.95)


def test_a_second_in_which_no_gauge_was_read_is_as_the_one_before(window: Any) -> None:
    unread = dict.fromkeys(
        ("usable_blocks", "used_last", "used_min", "used_max", "waiting_last", "waiting_min"), np.nan
    )
    found = window({NOW - 70: {"waiting_last": 2}, NOW - 30: unread, NOW - 3: {"waiting_min": 5}})
    assert (found.waiting_low, found.used_low, found.used_mean_5m) == (2, 0.5, 0.5)


def test_the_mean_is_over_time_and_not_over_rows(window: Any) -> None:
    rows = {NOW - 100: {"used_last": 100}, NOW - 20: {"used_last": 0}, NOW - 10: {"used_last": np.nan}}
    assert window(rows).used_mean_5m == pytest.approx(80 / 90)
    assert window({NOW - 1: {"used_last": np.nan, "used_max": np.nan}}).used_mean_5m is None


def test_latency_is_of_its_own_window(window: Any) -> None:
    slow, quick = durations(2.0, 10), durations(0.1, 40)
    seconds = {
        NOW - 400: {"ttft_histogram": slow, "itl_histogram": slow},
        NOW - 200: {"ttft_histogram": quick, "itl_histogram": slow},
        NOW - 30: {"itl_histogram": quick},
    }
    minutes = {
        NOW - 4000: {"ttft_histogram": quick},
        NOW - 3000: {"ttft_histogram": slow},
        NOW - 300: {"ttft_histogram": quick},
    }
    found = window(seconds, minutes)
    assert (found.ttft_5m_s, found.first_tokens_5m) == (pytest.approx(0.1, rel=0.2), 40)
    assert (found.itl_p50_s, found.itl_p99_s) == (pytest.approx(0.1, rel=0.2), pytest.approx(0.1, rel=0.2))
    # The hour before the last five minutes: neither what is older nor what is being compared with it.
    assert (found.ttft_hour_s, found.first_tokens_hour) == (pytest.approx(2.0, rel=0.2), 10)


def test_of_an_hour_that_nobody_watched_nothing_is_counted(window: Any) -> None:
    told = {at: {"ttft_histogram": durations(0.1, 3)} for at in (NOW - 3000, NOW - 360)}
    assert window({}, {NOW - 360: told[NOW - 360]}).first_tokens_hour is None
    assert window({}, {NOW - 361: {}, NOW - 60: {}}).first_tokens_hour == 0
    assert window({}, told).first_tokens_hour == 3


def test_hit_rates_are_of_sums_and_the_day_needs_an_hour(window: Any) -> None:
    def tokens(queried: int, hit: int) -> dict[str, int]:
        return {"tokens_queried": queried, "tokens_hit": hit}

    rows = {
        NOW - 80_000: tokens(1000, 700), NOW - 5000: tokens(300, 200), NOW - 1700: tokens(10, 10),
        NOW - 60: tokens(990, 0),
    }  # fmt: skip
    found = window({}, rows)
    assert (found.hit_rate_30m, found.queried_30m) == (0.01, 1000)
    assert found.hit_rate_before == pytest.approx(2 / 3)
    assert found.hit_rate_day == pytest.approx(910 / 2300)
    assert found.watched_s == 80_000
    fresh = window({}, {NOW - 3599: tokens(10, 10)})
    assert (fresh.hit_rate_day, fresh.hit_rate_30m, fresh.hit_rate_before) == (None, None, None)


def test_it_is_watched_since_the_second_of_the_first_event_for_at_most_a_day(window: Any) -> None:
    assert window({NOW - 3555: {}, NOW - 3550: {}}, {NOW - 3600: {}}).watched_s == 3555
    assert window({NOW - 10: {}}, {NOW - 60: {}}).watched_s == 10
    assert window({}, {NOW - 3600: {}}).watched_s == 3600  # seconds are kept for less long than minutes
    assert window({NOW - 86_400: {}}, {NOW - 86_400: {}}).watched_s == 86_400


def test_the_day_is_not_told_before_an_hour_from_the_first_event(window: Any) -> None:
    tokens = {"tokens_queried": 10, "tokens_hit": 5}
    assert window({NOW - 3599: tokens}, {NOW - 3620: tokens}).hit_rate_day is None
    assert window({NOW - 3600: tokens}, {NOW - 3620: tokens}).hit_rate_day == 0.5
