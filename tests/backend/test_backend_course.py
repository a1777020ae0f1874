"""The course of the figures: what the tiles would have told at each second, and no spike or hole smoothed away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from kvxray_backend.course import MAX_STEPS, Course, into_course, step_seconds
from kvxray_backend.timeline import GAUGES, RATES, RATIOS, SLOT_RATIO, bucket_seconds
from kvxray_storage.histograms import buckets_of, encode_histogram
from kvxray_storage.rollups import ColumnsByName

from tests.backend.past_told import all_events, minutes_of_work
from tests.backend.served import caught_up, serving, source_of
from tests.backend.small_engine import SmallEngine
from tests.backend.test_backend_past_rates import seconds

T0 = 6_000


def rows(seconds: list[int], *, epoch: int = 1, **values: list[Any]) -> ColumnsByName:
    """Rollups of these seconds, in which nothing happened but `values`; two blocks are in use."""
    parts = {part for names in (*RATES.values(), *RATIOS.values()) for part in names}
    columns: ColumnsByName = {"t_s": T0 + np.array(seconds), "epoch": np.full(len(seconds), epoch)}
    columns |= {part: np.zeros(len(seconds), np.int64) for part in parts}
    columns |= {f"{name}_{of}": np.full(len(seconds), 2.0) for name in GAUGES for of in ("last", "min", "max")}
    columns |= {name: np.full(len(seconds), np.nan) for name in (*SLOT_RATIO, "usable_blocks")}
    for name in ("ttft_histogram", "itl_histogram"):
        columns[name] = np.array([b""] * len(seconds), object)
    return columns | {name: np.array(of, columns[name].dtype) for name, of in values.items()}


def told(columns: ColumnsByName, seconds: int = 1, step: int = 1, started: int = T0 - 1_000) -> Course:
    return into_course(columns, {1: started, 2: started}, T0, seconds, step)


def test_rates_are_over_ten_seconds_and_fall_to_zero_in_silence() -> None:
    course = told(rows([0, 2, 15], allocations=[30, 0, 10]))
    assert course.t_s.tolist() == list(range(T0, T0 + 16))
    assert course.series["allocations_per_s"].tolist() == [3.0] * 10 + [0.0] * 5 + [1.0]
    assert course.series["used"].tolist() == [2.0] * 16


def test_a_window_reaches_no_further_back_than_its_epoch() -> None:
    course = told(rows([0, 1, 2], allocations=[6, 6, 6]), started=T0)
    assert course.series["allocations_per_s"].tolist() == [6.0, 6.0, 6.0]


def test_a_clock_set_back_to_before_the_epoch_began_makes_no_rate_larger() -> None:
    back, before = list(range(20)), list(range(3_600, 3_620))
    course = told(rows(back + before, allocations=[8] * 40), started=T0 + 3_600)
    rates = course.series["allocations_per_s"]
    assert rates[:20].tolist() == [8.0] * 20
    assert rates[3_600:].tolist() == [8.0] * 20
    assert rates[29:3_600].tolist() == [0.0] * 3_571


def test_nothing_looked_up_is_a_hole_and_never_zero() -> None:
    course = told(rows([0, 1, 70], tokens_queried=[30, 10, 0], tokens_hit=[0, 10, 0]))
    hits = course.series["hit_rate"]
    assert hits[:2].tolist() == [0.0, 0.25]  # of all that was asked for, not the mean of two rates
    assert hits[60] == 1.0
    assert np.isnan(hits[61:]).all()


def test_a_spike_survives_in_a_wide_bucket() -> None:
    spike = [2.0] * 60
    spike[7] = 900.0
    one = rows(list(range(60)), used_max=spike, allocations=[0] * 3 + [50] + [0] * 56)
    course = told(one, seconds=30)
    assert course.t_s.tolist() == [T0, T0 + 30]
    assert course.series["used"].tolist() == [2.0, 2.0]
    assert course.series["used_max"].tolist() == [900.0, 2.0]
    assert course.series["allocations_per_s"].tolist() == [0.0, 0.0]
    assert course.series["allocations_per_s_max"].tolist() == [5.0, 0.0]


def test_epochs_are_apart_and_nothing_is_told_between_them() -> None:
    first, second = rows([0, 1]), rows([50, 51], epoch=2)
    both = {name: np.concatenate([first[name], second[name]]) for name in first}
    course = told(both)
    assert list(zip(course.epoch.tolist(), (course.t_s - T0).tolist(), strict=True)) == [
        (1, 0),
        (1, 1),
        (2, 50),
        (2, 51),
    ]


def test_minutes_take_the_place_of_seconds() -> None:
    course = told(rows([0, 60, 240], allocations=[120, 0, 60]), seconds=120, step=60)
    assert (course.windows.rate_s, course.windows.hit_rate_s, course.windows.latency_s) == (60, 60, 120)
    assert course.series["allocations_per_s"].tolist() == [0.0, 0.0, 1.0]
    assert course.series["allocations_per_s_max"].tolist() == [2.0, 0.0, 1.0]


def test_a_longer_step_keeps_the_lowest_and_highest_of_its_rows() -> None:
    minutes = rows([0, 60, 120, 600], allocations=[120, 0, 60, 30], used_min=[1, 2, 2, 2], used_max=[2, 9, 2, 2])
    course = told(minutes, seconds=600, step=300)
    assert course.windows.rate_s == 300
    assert course.t_s.tolist() == [T0, T0 + 600]
    assert course.series["used_min"].tolist() == [1.0, 2.0]
    assert course.series["used_max"].tolist() == [9.0, 2.0]
    assert course.series["allocations_per_s"].tolist() == [0.0, 0.1]
    assert course.series["allocations_per_s_max"].tolist() == [0.6, 0.1]


YEAR_S = 365 * 86_400


@pytest.mark.parametrize("points", [1, 7, 300, 2_000])
@pytest.mark.parametrize("span_s", [60, 90_000, YEAR_S // 3, YEAR_S, 57 * YEAR_S, 8_000 * YEAR_S])
def test_the_steps_of_a_stretch_are_never_too_many(points: int, span_s: int) -> None:
    bucket_s = bucket_seconds(span_s * 10**9, points)
    kept_s = 60 if bucket_s % 60 == 0 else 1
    step = step_seconds(span_s * 10**9, bucket_s, kept_s)
    assert (step % kept_s, bucket_s % step) == (0, 0)
    assert span_s // step <= MAX_STEPS
    if points > 1 and span_s < YEAR_S // 2:
        assert step == kept_s


def test_quantiles_are_of_the_last_minute() -> None:
    def histogram(seconds: float, count: int) -> bytes:
        return encode_histogram(np.bincount(buckets_of(np.full(count, int(seconds * 1e6))), minlength=160))

    one = rows([0, 1, 59, 61], ttft_histogram=[histogram(0.1, 90), b"", histogram(5.0, 10), b""])
    course = told(one)
    p50, p99 = (course.series[f"ttft_{name}_s"] for name in ("p50", "p99"))
    assert p50[0] == pytest.approx(0.1, rel=0.2)
    assert p99[59] == pytest.approx(5.0, rel=0.2)
    assert p50[59] == pytest.approx(0.1, rel=0.2)
    assert p50[61] == pytest.approx(5.0, rel=0.2)  # the first row is a minute old


def test_nothing_stored_has_no_points() -> None:
    empty = {name: of[:0] for name, of in rows([0]).items()}
    assert told(empty).t_s.tolist() == []


def test_the_course_ends_with_what_the_tiles_told(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 2) as (client, last):
        state = client.get("/api/state", params={"at": last}).json()
        for points in (2_000, 40):
            course = client.get("/api/course", params={"points": points}).json()
            assert {len(values) for values in course["series"].values()} == {len(course["t"])}
            series = {name: values[-1] for name, values in course["series"].items()}
            for name in ("cached", "active", "shared"):
                assert series[name] == state["counts"][name]["value"], name
            figures = {name: figure["value"] for name, figure in state["figures"].items()}
            for name in ("running", "waiting"):
                assert series[name] == figures[name], name
            # A second at the edge of a window counts in whole or not at all.
            assert series["hit_rate"] == pytest.approx(figures["hit_rate"], rel=0.1)
            assert series["allocations_per_s"] == pytest.approx(figures["allocations_per_s"], rel=0.35)
            assert series["internal_fragmentation"] == pytest.approx(figures["internal_fragmentation"], abs=1e-6)


def test_every_second_is_what_its_events_tell(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 2) as (client, _):
        told = ask(client, points=2_000)
        rows = all_events(client)
    assert told["seconds"] == 1
    at = [int(seconds(row["time"])) for row in rows]
    begin = at[0]

    def within(second: int, window: int) -> list[dict[str, Any]]:
        return [row for row, when in zip(rows, at, strict=True) if second - window < when <= second]

    for second, number in zip(told["t"][::7], range(0, len(told["t"]), 7), strict=True):
        # The epoch's first seconds are told over as many as there were.
        counted = within(second, 10) if second >= begin + 10 else None
        for name, kind in (("allocations_per_s", "BlockAllocated"), ("evictions_per_s", "BlockEvicted")):
            if counted is not None:
                count = sum(row["kind"] == kind for row in counted)
                assert told["series"][name][number] == pytest.approx(count / 10), (name, second - begin)
        asked = [row for row in within(second, 60) if row["kind"] == "RequestScheduled"]
        queried, hit = (sum(row[name] for row in asked) for name in ("a0", "a1"))
        value = told["series"]["hit_rate"][number]
        assert value == (pytest.approx(hit / queried) if queried else None), second - begin


def test_a_stretch_is_asked_for_as_of_the_timeline(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as client:
        engine.work(5)
        caught_up(client, engine)
        whole = ask(client)
        assert whole["windows"] == {"rate_s": 10, "hit_rate_s": 60, "latency_s": 60}
        ended = client.get("/api/course", params={"from": whole["end"], "to": whole["begin"]})
        assert (ended.status_code, ended.json()["error"]) == (400, "The end of the timeline lies before its beginning.")


def test_a_stretch_from_1970_or_to_the_end_of_time_is_told_like_any_other(tmp_path: Path) -> None:
    """A clock that was wrong at first, or an address that somebody typed, is no reason for gigabytes."""
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as client:
        engine.work(5)
        caught_up(client, engine)
        used = client.get("/api/state").json()["figures"]["used"]["value"]
        for stretch in ({"from": "1970-01-01"}, {"to": "9999-12-31"}, {"from": "1970-01-01", "to": "9999-12-31"}):
            for points in (1, 300):
                course = ask(client, points=points, **stretch)
                assert len(course["t"]) == 1, stretch
                assert course["series"]["used"][-1] / course["series"]["usable_blocks"][-1] == pytest.approx(used)


def ask(client: TestClient, **query: int | str) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/api/course", params=query).json()
    return answer
