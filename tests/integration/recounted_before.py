"""What the overview tells of the minutes, the hour and the day before a moment, recounted event by event from the birth
of an engine: plain Python that reads JSON, and nothing of the product.

Stretches are of whole seconds, that of the moment the last; those longer than ten minutes of whole minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from tests.integration.recount import Block, Event, Recount, hit_rate_of, ms_of
from tests.integration.recounted import Number
from tests.integration.watched_life import BLOCK_SIZE, NUM_BLOCKS

MINUTE, HOUR, DAY = 60, 3600, 86_400
ENDS: Final = ("RequestFinished", "RequestAborted", "RequestFailed")


@dataclass(frozen=True)
class Reading:
    """What the gauges were after a step."""

    second: int
    used: float
    waiting: int


@dataclass(frozen=True)
class Wait:
    """`took_s`: from arrival to the first token, or from the token before."""

    second: int
    is_first: bool
    took_s: float


@dataclass
class LifeSoFar:
    """All of a life up to the second of a moment; `now_s` is that second."""

    now_s: int
    events: list[Event] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    def num_lately(self, *kinds: str) -> int:
        """Events of the last ten minutes."""
        since_s = self.now_s - 10 * MINUTE
        return sum(event["kind"] in kinds and second_of(event) >= since_s for event in self.events)

    def scheduled(self, begin_s: int, end_s: int) -> list[Event]:
        """In the minutes that begin from one second up to, not including, another."""
        return [e for e in self.events if e["kind"] == "RequestScheduled" and begin_s <= minute_of(e) < end_s]

    def first_waits(self, begin_s: int, end_s: int) -> list[float]:
        """Of the minutes that begin then."""
        return [wait.took_s for wait in self.waits if wait.is_first and begin_s <= wait.second // 60 * 60 < end_s]

    def recent_waits(self, seconds: int, *, is_first: bool) -> list[float]:
        since_s = self.now_s - seconds
        return [wait.took_s for wait in self.waits if wait.is_first is is_first and wait.second >= since_s]

    def stood(self, seconds: int) -> list[Reading]:
        """What the gauges were in the last seconds, and what they had been when those began."""
        since_s = self.now_s - seconds
        before = [reading for reading in self.readings if reading.second < since_s]
        return before[-1:] + [reading for reading in self.readings if reading.second >= since_s]

    def used_by_second(self, seconds: int) -> list[float]:
        """At the end of each of them, that of the moment included."""
        ends = [
            [reading.used for reading in self.readings if reading.second <= second]
            for second in range(self.now_s - seconds, self.now_s + 1)
        ]
        return [used[-1] for used in ends if used]

    def watched_s(self) -> int:
        """Since the first event of the last day."""
        return self.now_s - min(second_of(event) for event in self.events if second_of(event) >= self.now_s - DAY)


EXACT: Final[dict[str, Callable[[LifeSoFar], Number]]] = {
    "used_low": lambda so_far: min(reading.used for reading in so_far.stood(MINUTE)),
    "used_high": lambda so_far: max(reading.used for reading in so_far.stood(MINUTE)),
    "waiting_low": lambda so_far: min(reading.waiting for reading in so_far.stood(MINUTE)),
    "used_max_5m": lambda so_far: max(reading.used for reading in so_far.stood(5 * MINUTE)),
    "used_mean_5m": lambda so_far: mean(so_far.used_by_second(5 * MINUTE)),
    "preemptions_10m": lambda so_far: so_far.num_lately("RequestPreempted"),
    "finished_10m": lambda so_far: so_far.num_lately(*ENDS),
    "preemptions_per_finished": lambda so_far: so_far.num_lately("RequestPreempted") / so_far.num_lately(*ENDS),
    "first_tokens_5m": lambda so_far: len(so_far.recent_waits(5 * MINUTE, is_first=True)),
    "first_tokens_hour": lambda so_far: len(hour_before(so_far)),
    "queried_30m": lambda so_far: sum(event["a0"] for event in half_hour(so_far)),
    "hit_rate_30m": lambda so_far: hit_rate_of(half_hour(so_far)),
    "hit_rate_before": lambda so_far: hit_rate_of(
        so_far.scheduled(so_far.now_s - HOUR - HOUR // 2, so_far.now_s - HOUR)
    ),
    "hit_rate_day": lambda so_far: hit_rate_of(so_far.scheduled((so_far.now_s - DAY) // 60 * 60, so_far.now_s + 1)),
    "watched_s": LifeSoFar.watched_s,
}
QUARTER_OF_AN_OCTAVE: Final = 2**0.25
"""Quantiles of durations come from histograms: how far they may be off."""

QUANTILES: Final[dict[str, Callable[[LifeSoFar], float | None]]] = {
    "itl_p50_s": lambda so_far: quantile(so_far.recent_waits(MINUTE, is_first=False), 0.5),
    "itl_p99_s": lambda so_far: quantile(so_far.recent_waits(MINUTE, is_first=False), 0.99),
    "ttft_5m_s": lambda so_far: quantile(so_far.recent_waits(5 * MINUTE, is_first=True), 0.5),
    "ttft_hour_s": lambda so_far: quantile(hour_before(so_far), 0.5),
}


def half_hour(so_far: LifeSoFar) -> list[Event]:
    return so_far.scheduled(so_far.now_s - HOUR // 2, so_far.now_s + 1)


def hour_before(so_far: LifeSoFar) -> list[float]:
    """The hour before the last five minutes."""
    return so_far.first_waits(so_far.now_s - HOUR - 5 * MINUTE, so_far.now_s - 6 * MINUTE)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def quantile(values: list[float], share: float) -> float | None:
    """The smallest of them that this share does not exceed."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else None


def second_of(event: Event) -> int:
    return ms_of(event["time"]) // 1000


def minute_of(event: Event) -> int:
    return second_of(event) // 60 * 60


def life_so_far(events: Iterable[Event], now_s: int) -> LifeSoFar:
    """From birth, when no block was ever written, to the end of a second."""
    truth, so_far, last_token_ms = Recount([], [], BLOCK_SIZE), LifeSoFar(now_s), dict[str, int]()
    truth.blocks = {block_id: Block(block_id) for block_id in range(1, NUM_BLOCKS)}
    for event in events:
        if second_of(event) > now_s:
            break
        truth.happen(event)
        so_far.events.append(event)
        if event["kind"] == "StepCompleted":
            used, waiting = truth.share_of_blocks("active", "shared"), truth.num_requests("waiting", "preempted")
            so_far.readings.append(Reading(second_of(event), used, waiting))
        elif event["kind"] == "TokensGenerated":
            so_far.waits += waits_of(event, truth, last_token_ms)
            last_token_ms[event["request_id"]] = truth.now_ms
    return so_far


def waits_of(event: Event, truth: Recount, last_token_ms: dict[str, int]) -> list[Wait]:
    """One entry a token; several of one step took a part of its time each."""
    name, num, is_first = event["request_id"], event["a0"], event["a0"] == event["a1"]
    since_ms = truth.requests[name].arrived_ms if is_first else last_token_ms[name]
    took_s = (truth.now_ms - since_ms) / 1000 / num
    return [Wait(second_of(event), is_first, took_s)] * (1 if is_first else num)
