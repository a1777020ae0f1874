"""Rates and the timeline of the past over the API: they are those of the events of then."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.moments import Moment
from kvxray_backend.timeline import bucket_seconds

from tests.backend.past_told import all_events, minutes_of_work
from tests.backend.served import caught_up, serving, source_of
from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine


def test_rates_and_the_hit_rate_of_the_past_are_those_of_its_events(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 3) as (client, last):
        rows = all_events(client)
        at = rows[len(rows) * 3 // 4]["seq"]
        state = client.get("/api/state", params={"at": at}).json()
        now = seconds(state["time"])
        before = [row for row in rows if int(row["seq"][2:]) <= int(at[2:])]
        minute = [row for row in before if seconds(row["time"]) > now - 60]
        looked_up = [row for row in minute if row["kind"] == "RequestScheduled"]
        hit, queried = sum(row["a1"] for row in looked_up), sum(row["a0"] for row in looked_up)
        # Windows begin with a whole second, which holds at most two of some hundred steps.
        assert state["figures"]["hit_rate"]["value"] == pytest.approx(hit / queried, rel=0.1)
        allocated = sum(row["kind"] == "BlockAllocated" and seconds(row["time"]) > now - 10 for row in before)
        assert state["figures"]["allocations_per_s"]["value"] == pytest.approx(allocated / 10, rel=0.3)


def rates(client: TestClient, at: str) -> dict[str, Any]:
    figures: dict[str, Any] = client.get("/api/state", params={"at": at}).json()["figures"]
    return {name: figures[name]["value"] for name in ("allocations_per_s", "tokens_per_s", "hit_rate")}


@pytest.mark.parametrize("set_back_s", [12, 30, 300])
def test_rates_around_a_clock_that_was_set_back_are_those_of_the_events_of_then(
    tmp_path: Path, set_back_s: int
) -> None:
    """Two steps a second of the engine's own time, whatever its clock says: windows hold so many steps."""
    clock = ShiftedClock()
    with SmallEngine(clock=clock) as engine, serving(tmp_path, source_of(engine)) as client:
        caught_up(client, engine)
        steps: list[int] = []
        for step in range(1, 111):
            engine.work(1)
            steps.append(engine.recorder.next_seq - 1)
            clock.ahead_ns += 500_000_000
            if step == 60:
                clock.ahead_ns -= set_back_s * 1_000_000_000
        caught_up(client, engine)
        rows = all_events(client)
        for step in (50, 60, 66, 76, 110):
            told = rates(client, f"1.{steps[step - 1]}")
            within = [row for row in rows if steps[step - 21] < int(row["seq"][2:]) <= steps[step - 1]]
            allocated = sum(row["kind"] == "BlockAllocated" for row in within) / 10
            tokens = sum(row["a0"] for row in within if row["kind"] == "TokensGenerated") / 10
            # A window begins with a whole second at most: a step or two more or less of twenty.
            assert told["tokens_per_s"] == pytest.approx(tokens, rel=0.2), step
            assert told["allocations_per_s"] == pytest.approx(allocated, abs=0.7), step
            assert told["hit_rate"] is not None


def test_the_timeline_adds_up_to_the_events(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 3) as (client, last):
        rows = all_events(client)
        counted = {
            "allocations_per_s": sum(row["kind"] == "BlockAllocated" for row in rows),
            "evictions_per_s": sum(row["kind"] == "BlockEvicted" for row in rows),
            "tokens_per_s": sum(row["a0"] for row in rows if row["kind"] == "TokensGenerated"),
        }
        for points in (2_000, 50, 3):
            told = client.get("/api/timeline", params={"points": points}).json()
            assert len(told["t"]) <= points + 1
            for name, count in counted.items():
                assert sum(told["series"][name]) * told["seconds"] == pytest.approx(count)
            for name in ("free", "cached", "active", "shared", "running"):
                series = told["series"]
                for low, value, high in zip(series[f"{name}_min"], series[name], series[f"{name}_max"], strict=True):
                    assert low <= value <= high, name
        last_state = client.get("/api/state", params={"at": last}).json()
        assert told["series"]["cached"][-1] == last_state["counts"]["cached"]["value"]


@pytest.mark.parametrize(
    ("begin", "end", "points", "seconds_each"),
    [
        ("10:00:00", "10:14:00", 840, 1),
        ("10:00:00.250", "10:14:00.250", 840, 1),
        ("10:00:00", "10:14:00.001", 840, 2),
        ("10:00:00", "11:00:00", 60, 60),
        ("10:00:00", "11:00:01", 60, 120),
    ],
)
def test_a_stretch_has_as_many_points_as_are_asked_for(begin: str, end: str, points: int, seconds_each: int) -> None:
    first, last = (Moment.parse(f"2026-01-01T{time}Z") for time in (begin, end))
    assert first.begin_ns is not None
    assert last.t_ns is not None
    assert bucket_seconds(last.t_ns - first.begin_ns, points) == seconds_each


def seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
