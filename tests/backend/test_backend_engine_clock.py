"""What time it is for the engine, and how old things are by it, where its clock was set back."""

from __future__ import annotations

import numpy as np
import pytest
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.block_details import AGE_UNKNOWN, HEADER, details_frame
from kvxray_backend.engine_clock import EngineClock, age_s
from kvxray_backend.live_state import LiveState
from kvxray_backend.overview_figures import overview_figures
from kvxray_backend.overview_windows import Before
from kvxray_backend.views import block_view, reading_of, state_view
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Kind

from tests.backend.told import SECOND, Story

HOUR = 3600


def test_the_newest_time_told_is_now() -> None:
    clock = EngineClock()
    clock.tell_event(10 * SECOND)
    clock.tell_heartbeat(12 * SECOND)
    clock.tell_event(11 * SECOND)
    clock.tell_event(int(10.5 * SECOND))
    assert clock.now_ns == 12 * SECOND, "they cross by a hair, and the past that is caught up with is not now"


def test_after_a_clock_was_set_back_its_new_time_is_now() -> None:
    clock = EngineClock()
    clock.tell_event(HOUR * SECOND)
    clock.tell_event(10 * SECOND)
    assert clock.now_ns == 10 * SECOND
    clock.tell_heartbeat(11 * SECOND)
    clock.tell_event(int(10.9 * SECOND))
    assert clock.now_ns == 11 * SECOND


def test_heartbeats_alone_tell_that_an_idle_engines_clock_was_set_back() -> None:
    clock = EngineClock(heard_ns=HOUR * SECOND)
    clock.tell_event(HOUR * SECOND)
    clock.tell_heartbeat(10 * SECOND)
    assert clock.now_ns == 10 * SECOND


def test_the_past_that_is_caught_up_with_sets_no_clock_back() -> None:
    clock = EngineClock(heard_ns=HOUR * SECOND)
    for second in range(5):
        clock.tell_event(second * SECOND)
    assert clock.now_ns == HOUR * SECOND


def test_no_age_is_known_of_what_a_clock_set_back_since_told() -> None:
    assert age_s(10 * SECOND, 7 * SECOND) == 3
    assert age_s(10 * SECOND, int(10.2 * SECOND)) == 0, "crossed by a hair"
    assert age_s(10 * SECOND, HOUR * SECOND) is None
    assert age_s(10 * SECOND, 0) is None


def set_back() -> tuple[Story, LiveState]:
    """An engine whose clock was set back an hour after the first of two requests had its first token, and waits."""
    story = Story()
    live = LiveState("told")
    live.begin(1, BlockMap(story.map.descriptor, source="told", incarnation="life-1"))
    story.arrive("before")
    story.allocate("before", 1)
    live.fold(story.step(seconds=4))
    story.clock.now -= HOUR * SECOND
    story.arrive("after")
    story.schedule("after")
    story.allocate("after", 2)
    live.fold(story.step(seconds=5))
    story.tokens("after", 1)
    live.fold(story.step())
    return story, live


def test_ages_are_counted_from_the_time_the_clock_tells_now() -> None:
    story, live = set_back()
    state = state_view(live)
    assert state is not None
    assert state.engine_time == state.time == "2027-01-15T07:00:09.000Z"
    assert live.engine_time.t_ns == story.clock.now
    ages = {block: view.age_s.value for block in (1, 2) if (view := block_view(live, block, [])) is not None}
    assert ages == {1: None, 2: 5.0}
    made = details_frame(live)
    assert made is not None
    assert np.frombuffer(made[1], "<u4", 3, HEADER.size)[1:].tolist() == [AGE_UNKNOWN, 500]


def test_since_when_an_engine_is_watched_is_told_by_its_clock_as_it_is_now() -> None:
    _, live = set_back()
    state = state_view(live)
    assert state is not None
    # How long it was from the last event before to the first after, nobody knows: it counts as no time.
    assert (state.watched_since, state.engine_time) == ("2027-01-15T07:00:04.000Z", "2027-01-15T07:00:09.000Z")


def test_no_figure_takes_what_happened_before_for_news_of_the_last_minute() -> None:
    story, live = set_back()
    assert live.block_map is not None
    figures = overview_figures(reading_of(live, live.block_map), live.leaks, Before())
    assert figures["ttft_p50_s"].value == pytest.approx(5.0)
    assert figures["oldest_wait_s"].value is None, "that of the request from before is not known"


def test_a_leak_from_before_shows_by_steps_and_does_not_say_how_long_ago_its_request_ended() -> None:
    story = Story()
    story.arrive("dead")
    story.allocate("dead", 1)
    story.end("dead", Kind.RequestAborted)
    story.step(seconds=1)
    story.clock.now -= HOUR * SECOND
    live = LiveState("told")
    live.begin(1, BlockMap(story.map.descriptor, source="told", incarnation="life-1"))
    live.fold(story.messages[0])
    for name in ("x", "y", "z"):
        story.arrive(name)
        story.schedule(name)
        live.fold(story.step(seconds=0.1))
    (leak,) = find_leaks(story.map, live.engine_time)
    finding = leak.finding("told", 1, 9, live.engine_time.t_ns)
    assert finding.sentence.startswith("Leak: request dead, aborted, still holds 1 block, held by nobody living")
    assert "ended_s_ago" not in finding.numbers
    assert finding.mark == "Leak: request dead, aborted, still holds blocks."
