"""What the map and the timeline draw equals what a plain recount of a keyframe and the events says."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median_low
from typing import Any, Final

import pytest

from tests.integration.recount import Event, Recount, hit_rate_of, ms_of
from tests.integration.watched_life import BLOCK_SIZE, NUM_BLOCKS, Life, Moment, seq_of, truth_at

STATES: Final = ("unknown", "empty", "free", "cached", "active", "shared")
GAUGES: Final[dict[str, Callable[[Recount], int]]] = {
    **{state: lambda truth, state=state: truth.num_blocks(state) for state in STATES},
    "used": lambda truth: truth.num_blocks("active", "shared"),
    "leaked": lambda truth: len(truth.leaked()),
    "running": lambda truth: truth.num_requests("running"),
    "waiting": lambda truth: truth.num_requests("waiting", "preempted"),
}
QUARTER_OF_AN_OCTAVE: Final = 2**0.25
"""How far the median of a histogram may be off."""


@dataclass(frozen=True)
class Bucket:
    """What happened in it, and all that the gauges were meanwhile, the last reading last."""

    begin_ms: int
    events: list[Event]
    readings: list[dict[str, float | None]]
    ttft_s: list[float]
    itl_s: list[float]

    def per_second(self, kind: str, seconds: int) -> float:
        return sum(event["kind"] == kind for event in self.events) / seconds

    def of_kind(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["kind"] == kind]


COUNTED: Final[dict[str, Callable[[Bucket, int], float | None]]] = {
    "allocations_per_s": lambda bucket, seconds: bucket.per_second("BlockAllocated", seconds),
    "stores_per_s": lambda bucket, seconds: bucket.per_second("BlockCached", seconds),
    "evictions_per_s": lambda bucket, seconds: bucket.per_second("BlockEvicted", seconds),
    "preemptions_per_s": lambda bucket, seconds: bucket.per_second("RequestPreempted", seconds),
    "tokens_per_s": lambda bucket, seconds: sum(e["a0"] for e in bucket.of_kind("TokensGenerated")) / seconds,
    "hit_rate": lambda bucket, seconds: hit_rate_of(bucket.of_kind("RequestScheduled")),
    "usable_blocks": lambda bucket, seconds: NUM_BLOCKS - 1,
    "internal_fragmentation": lambda bucket, seconds: bucket.readings[-1]["internal_fragmentation"],
    **{name: lambda bucket, seconds, name=name: bucket.readings[-1][name] for name in GAUGES},
}
MEDIANS: Final[dict[str, Callable[[Bucket], list[float]]]] = {
    "ttft_p50_s": lambda bucket: bucket.ttft_s,
    "itl_p50_s": lambda bucket: bucket.itl_s,
}


def test_the_map_is_what_the_events_tell(life: Life, moment: Moment) -> None:
    answer = life.http.get("/api/state/blocks", params=moment.query, headers={"accept-encoding": "identity"})
    columns = list(struct.iter_unpack("<B", answer.content[64:]))
    state, ref, fill, flags = (
        [value for (value,) in columns[at * NUM_BLOCKS : (at + 1) * NUM_BLOCKS]] for at in range(4)
    )
    leaked, leaked_only = moment.truth.leaked(), moment.truth.leaked_only()
    for block_id, block in moment.truth.blocks.items():
        told = (STATES[state[block_id]], ref[block_id], fill[block_id])
        assert told == (block.state, block.ref, -(-block.slots * 254 // BLOCK_SIZE)), block_id
        marks = {1: block_id in leaked, 2: False, 4: block.has_hash, 8: block_id in leaked_only}
        assert flags[block_id] == sum(bit for bit, is_set in marks.items() if is_set), block_id


def test_ages_and_holders_of_the_map_are_what_the_events_tell(life: Life, moment: Moment) -> None:
    query = {**moment.query, "sharers": 1}
    answer = life.http.get("/api/state/details", params=query, headers={"accept-encoding": "identity"})
    columns = answer.content[32 : 32 + 8 * NUM_BLOCKS]
    sets = json.loads(answer.content[32 + 8 * NUM_BLOCKS :])["together"]
    numbers = [value for (value,) in struct.iter_unpack("<I", columns)]
    ages, holders = numbers[:NUM_BLOCKS], numbers[NUM_BLOCKS:]
    truth, last_ms = moment.truth, ms_of(moment.truth.events[-1]["time"])
    for block_id, block in truth.blocks.items():
        # Of when the state is from, its last event, also where the engine was heard later.
        assert ages[block_id] == (last_ms - block.allocated_ms) // 10, block_id
        assert holders_told(holders[block_id], sets) == {truth.requests[name].ordinal for name in block.holders}, (
            block_id
        )


def holders_told(word: int, sets: list[list[int]]) -> set[int]:
    """By ordinal: one, or those of a set, or nobody."""
    if word == 0xFFFFFFFF:
        return set()
    return set(sets[word - 0x80000000]) if word >= 0x80000000 else {word}


@pytest.mark.parametrize("seconds", [1, 10])
def test_the_timeline_is_what_the_events_tell(life: Life, seconds: int) -> None:
    early_ms = max(ms_of(event["time"]) for event in life.events if seq_of(event["seq"]) <= seq_of(life.early))
    begin_ms = -(-early_ms // 10_000) * 10_000
    end_ms = life.moments["live"].truth.now_ms
    told = timeline(life, begin_ms, end_ms, seconds)
    buckets = buckets_of(life, begin_ms, seconds)
    assert told["t"] == [bucket.begin_ms // 1000 for bucket in buckets]
    assert told["series"].keys() == {
        *COUNTED,
        *MEDIANS,
        *(f"{name}_{end}" for name in GAUGES for end in ("min", "max")),
    }
    for name, count in COUNTED.items():
        expected = [count(bucket, seconds) for bucket in buckets]
        assert told["series"][name] == [value if value is None else pytest.approx(value) for value in expected], name
    for name in GAUGES:
        assert_readings(told["series"], name, buckets)
    for name, waits in MEDIANS.items():
        for value, bucket in zip(told["series"][name], buckets, strict=True):
            assert_is_median(value, waits(bucket))


def buckets_of(life: Life, begin_ms: int, seconds: int) -> list[Bucket]:
    """The stretches in which something happened, with a reading of the gauges after every step."""
    truth, last_token = truth_at(life.http, life.early, life.events, life.early), dict[str, int]()
    buckets: list[Bucket] = []
    for event in life.events:
        t_ms = ms_of(event["time"])
        start_ms = t_ms // (1000 * seconds) * 1000 * seconds
        if seq_of(event["seq"]) > seq_of(life.early):
            truth.happen(event)
        if start_ms >= begin_ms:
            if not buckets or buckets[-1].begin_ms != start_ms:
                buckets.append(Bucket(start_ms, [], [], [], []))
            note(buckets[-1], event, truth, last_token)
        if event["kind"] == "TokensGenerated":
            last_token[event["request_id"]] = t_ms
    return buckets


def note(bucket: Bucket, event: Event, truth: Recount, last_token: dict[str, int]) -> None:
    bucket.events.append(event)
    if event["kind"] == "StepCompleted":
        reading: dict[str, float | None] = {name: count(truth) for name, count in GAUGES.items()}
        bucket.readings.append(reading | {"internal_fragmentation": truth.internal_fragmentation()})
    elif event["kind"] == "TokensGenerated":
        name, is_first = event["request_id"], event["a0"] == event["a1"]
        since_ms = truth.requests[name].arrived_ms if is_first else last_token[name]
        (bucket.ttft_s if is_first else bucket.itl_s).append((truth.now_ms - since_ms) / 1000)


def timeline(life: Life, begin_ms: int, end_ms: int, seconds: int) -> Any:
    """Buckets of so many seconds over a stretch."""
    begin, end = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (begin_ms, end_ms - 1))
    points = (end_ms - begin_ms) // (1000 * seconds)
    told = life.get("/api/timeline", **{"from": begin, "to": end, "points": points})
    assert told["seconds"] == seconds
    return told


def assert_readings(series: dict[str, list[float]], name: str, buckets: list[Bucket]) -> None:
    """The lowest and the highest were readings of that stretch, on the two sides of the last."""
    for at, bucket in enumerate(buckets):
        low, last, high = (series[f"{name}{end}"][at] for end in ("_min", "", "_max"))
        assert low <= last <= high, name
        assert {low, high} <= {reading[name] for reading in bucket.readings}, name


def assert_is_median(value: float | None, waits: list[float]) -> None:
    if not waits:
        assert value is None
        return
    assert value is not None
    assert 1 / QUARTER_OF_AN_OCTAVE <= value / median_low(waits) <= QUARTER_OF_AN_OCTAVE
