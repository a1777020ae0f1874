"""Requests that wait while nothing runs: told after half a minute, with what is missing."""

from __future__ import annotations

from kvxray_backend.analysis.admission import stuck_finding
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.live_state import LiveState
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind

from tests.backend.told import SECOND, Story, descriptor


def stuck(story: Story, seconds: float) -> Finding | None:
    """What is found so long after what was told last."""
    story.step()
    now_ns = story.clock.now + round(seconds * SECOND)
    return stuck_finding(Place("told", 1, 0, now_ns), story.map, EngineTime(now_ns, story.step_number, True))


def sentence(story: Story, seconds: float = 31) -> str:
    found = stuck(story, seconds)
    return found.sentence if found is not None else ""


def test_a_request_that_waits_for_half_a_minute_while_nothing_runs_is_stuck() -> None:
    story = Story()
    story.arrive("r", prompt=20)
    assert stuck(story, 29) is None
    found = stuck(story, 31)
    assert found is not None
    assert (found.kind, found.severity, found.subjects.requests) == ("admission_stuck", "critical", ("r",))
    assert found.numbers == {"waiting": 1, "needed_blocks": 2, "free_blocks": 8}


def test_it_says_whether_blocks_are_what_is_missing() -> None:
    story = Story()
    story.arrive("small", prompt=20)
    assert "8 blocks are free: it is not the cache that holds it up" in sentence(story)
    leaked = Story()
    leaked.arrive("gone")
    leaked.allocate("gone", 1, 2, 3, 4, 5, 6, 7)
    leaked.end("gone")
    leaked.arrive("small", prompt=20)
    assert "needs 2 blocks and 1 block is free: look who holds the others" in sentence(leaked)
    large = Story()
    large.arrive("large", prompt=16 * 8 + 1)
    assert "needs 9 blocks and there are 8 in all: it can never run" in sentence(large)


def test_an_engine_at_work_is_not_stuck() -> None:
    story = Story()
    story.arrive("runs")
    story.schedule("runs")
    story.arrive("waits")
    assert stuck(story, 3600) is None


def test_it_counts_from_when_the_last_request_ended() -> None:
    story = Story()
    story.arrive("runs")
    story.schedule("runs")
    story.arrive("waits")
    story.step(seconds=60)
    story.begin()
    story.end("runs")
    assert stuck(story, 20) is None
    assert stuck(story, 31) is not None


def test_who_holds_blocks_already_waits_for_something_else() -> None:
    story = Story()
    story.arrive("fetches")
    story.allocate("fetches", 1)
    assert stuck(story, 3600) is None


def test_a_preempted_request_waits_too() -> None:
    story = Story()
    story.arrive("r")
    story.schedule("r")
    story.begin().op(Kind.RequestPreempted, Cause.none, story.of("r"), 32, NO_ORDINAL)
    assert stuck(story, 31) is not None


def test_behind_a_gap_nobody_knows_who_holds_what() -> None:
    story = Story()
    story.arrive("r")
    story.step()
    story.map.forget()
    assert stuck(story, 31) is None


def test_a_live_engine_is_found_stuck_and_well_again() -> None:
    story, live, changes = Story(), LiveState("told"), list[Finding]()
    live.begin(1, BlockMap(descriptor(), source="told", incarnation="life-1"))
    inspector = Inspector(live, story.clock, changes.append)

    def tell(seconds: float) -> list[str]:
        story.begin()
        story.clock.now += round(seconds * SECOND)
        message = story.step()
        inspector.folded(message, live.fold(message))
        inspector.inspect(story.clock.mono_ns())
        return [finding.kind for finding in live.findings]

    story.arrive("r")
    assert tell(1) == []
    story.clock.now += 40 * SECOND
    assert tell(1) == ["admission_stuck"]
    story.schedule("r")
    assert tell(1) == []
    assert changes[-1].sentence.startswith("Requests waited and nothing ran for ")
