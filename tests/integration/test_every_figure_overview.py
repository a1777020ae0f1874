"""The overview's figures equal a plain recount of a keyframe and the events.

Those of the time before have a longer life of their own, in test_every_figure_before.py.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

import pytest

from tests.integration.recount import HIT_S, Recount, Request, ms_of
from tests.integration.recounted import OF_THE_STATE, Number, only_time, seconds_between
from tests.integration.recounted_before import EXACT, QUANTILES
from tests.integration.recounted_lives import OF_LIVES
from tests.integration.watched_life import Life, Moment

OF_THE_EVENTS: Final[dict[str, Callable[[Recount], Number]]] = {
    **{name.partition(".")[2]: count for name, count in OF_THE_STATE.items() if name.startswith("figures.")},
    "unknown": lambda truth: 0,
    "cached_age_p50_s": lambda truth: age_of_cached(truth, "allocated_ms"),
    "cached_idle_p50_s": lambda truth: age_of_cached(truth, "last_ms"),
    "ttft_p99_s": lambda truth: high(waits(truth, lambda request: (request.arrived_ms, request.first_token_ms))),
    "queue_p50_s": lambda truth: middle(waits(truth, lambda request: (request.arrived_ms, only_time(request)))),
    "queue_p99_s": lambda truth: high(waits(truth, lambda request: (request.arrived_ms, only_time(request)))),
    "prefill_p50_s": lambda truth: middle(waits(truth, lambda request: (only_time(request), request.first_token_ms))),
    "waiting_new": lambda truth: truth.num_requests("waiting"),
    "waiting_preempted": lambda truth: truth.num_requests("preempted"),
    "oldest_wait_s": lambda truth: max(
        ((truth.now_ms - one.arrived_ms) / 1000 for one in truth.requests.values() if one.status == "waiting"),
        default=None,
    ),
    "silent_s": lambda truth: (truth.now_ms - ms_of(truth.events[-1]["time"])) / 1000,
    "prompt_tokens_queried": lambda truth: looked_up(truth, "a0"),
    "prompt_tokens_hit": lambda truth: looked_up(truth, "a1"),
    "prompt_tokens_computed": lambda truth: looked_up(truth, "a0") - looked_up(truth, "a1"),
    "leaked_by_requests": lambda truth: len(truth.leaked()),
    "lost_to_requests": lambda truth: len(truth.leaked_only()),
    "leaking_holders": lambda truth: sum(truth.leaks(name) for name in truth.requests),
    "expired_leases": lambda truth: 0,
}
UNTIL_WATCHED_LONGER: Final = ("hit_rate_before", "hit_rate_day", "ttft_hour_s", "first_tokens_hour")
"""Figures of a time before these three minutes."""


def age_of_cached(truth: Recount, since: str) -> float | None:
    return middle([(truth.now_ms - getattr(b, since)) / 1000 for b in truth.blocks.values() if b.state == "cached"])


def waits(truth: Recount, stretch: Callable[[Request], tuple[int | None, int | None]]) -> list[float]:
    """Seconds of a stretch, of the requests whose first token came in the last minute."""
    since_ms = truth.now_ms - 1000 * HIT_S
    recent = [one for one in truth.requests.values() if one.first_token_ms is not None]
    told = [seconds_between(*stretch(one)) for one in recent if (one.first_token_ms or 0) > since_ms]
    return [seconds for seconds in told if seconds is not None]


def middle(values: list[float]) -> float | None:
    return median(values) if values else None


def high(values: list[float]) -> float | None:
    """The smallest that 99 of 100 do not exceed."""
    if not values:
        return None
    ordered, rank = sorted(values), 0.99 * (len(values) - 1)
    return ordered[int(rank) + (rank > int(rank))]


def looked_up(truth: Recount, part: str) -> int:
    return sum(event[part] for event in truth.last(HIT_S, "RequestScheduled"))


@pytest.mark.parametrize("name", OF_THE_EVENTS)
def test_a_figure_of_the_overview_is_what_the_events_tell(life: Life, moment: Moment, name: str) -> None:
    (engine,) = life.get("/api/overview", **moment.query)["engines"]
    expected = OF_THE_EVENTS[name](moment.truth)
    assert engine["figures"][name]["value"] == (expected if expected is None else pytest.approx(expected))


def test_every_figure_of_the_overview_is_recounted(life: Life, moment: Moment) -> None:
    (engine,) = life.get("/api/overview", **moment.query)["engines"]
    told = {name: figure for name, figure in engine["figures"].items() if figure["certainty"] != "not_observable"}
    assert told.keys() == OF_THE_EVENTS.keys() | EXACT.keys() | QUANTILES.keys() | OF_LIVES.keys()


@pytest.mark.parametrize("name", UNTIL_WATCHED_LONGER)
def test_a_figure_of_a_time_that_nobody_watched_is_no_number(life: Life, moment: Moment, name: str) -> None:
    (engine,) = life.get("/api/overview", **moment.query)["engines"]
    assert engine["figures"][name]["value"] is None
