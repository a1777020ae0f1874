"""Requests that are preempted and come no further: told from the events, by everyone who asks, until they move."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kvxray_backend.analysis import preemptions
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import INSPECT_EVERY_NS, Begun, Inspector
from kvxray_backend.analysis.preemptions import PreemptionStreaks, loop_findings
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.sequencer import Gap
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind

from tests.backend.told import SECOND, Story, descriptor


class Engine:
    """An engine that preempts, inspected as a live one."""

    def __init__(self) -> None:
        self.story = Story()
        self.live = LiveState("told")
        self.changes: list[Finding] = []
        self.inspector = Inspector(self.live, self.story.clock, self.changes.append)
        self.live.begin(1, BlockMap(descriptor(), source="told", incarnation="life-1"))
        for name in ("slow", "favourite"):
            self.story.arrive(name)

    def preempt(self, request: str, times: int = 1, recompute: int = 0, beneficiary: str = "") -> None:
        for _ in range(times):
            to = self.story.of(beneficiary) if beneficiary else NO_ORDINAL
            recorder = self.story.begin()
            recorder.op(Kind.RequestPreempted, Cause.none, self.story.of(request), recompute, to)
            recorder.op(Kind.RequestResumed, Cause.none, self.story.of(request))

    def tell(self) -> list[Finding]:
        """Ends the step and looks; what is open then."""
        message = self.story.step(seconds=1)
        self.inspector.folded(message, self.live.fold(message))
        self.inspector.inspect(self.story.clock.mono_ns())
        return [*self.live.findings]


def test_three_preemptions_without_a_token_are_a_loop_and_two_are_not() -> None:
    engine = Engine()
    engine.preempt("slow", times=2)
    assert engine.tell() == []
    engine.preempt("slow")
    [found] = engine.tell()
    assert (found.kind, found.severity, found.subjects.requests) == ("preemption_loop", "warning", ("slow",))
    assert found.numbers == {"preemptions": 3, "recomputed_tokens": 0}


def test_it_says_who_got_the_blocks_and_what_was_lost() -> None:
    engine = Engine()
    engine.preempt("slow", times=4, recompute=600, beneficiary="favourite")
    [found] = engine.tell()
    assert found.subjects.requests == ("slow", "favourite")
    assert found.sentence == (
        "Request slow was preempted 4 times in a row without a single token in between. "
        "2,400 tokens had to be computed anew. Most often its blocks went to request favourite."
    )


def test_it_rests_on_the_events_from_the_first_preemption_to_the_last() -> None:
    engine = Engine()
    engine.tell()
    engine.preempt("slow", times=3)
    [found] = engine.tell()
    first = engine.story.messages[-1].header.seq0 + 1  # behind StepStarted
    assert (found.seq0, found.seq1) == (first, first + 4)
    assert found.time_ns == engine.story.messages[-1].header.t0_wall_ns


ENDS: dict[str, Callable[[Engine], None]] = {
    "a token": lambda engine: engine.story.tokens("slow", 1),
    "its end": lambda engine: engine.story.end("slow"),
    "its abort": lambda engine: engine.story.end("slow", Kind.RequestAborted),
}


@pytest.mark.parametrize("what", ENDS)
def test_the_loop_is_over_with(what: str) -> None:
    engine = Engine()
    engine.preempt("slow", times=3)
    assert engine.tell()
    ENDS[what](engine)
    assert engine.tell() == []
    assert [(finding.state, finding.kind) for finding in engine.changes] == [
        ("open", "preemption_loop"), ("ended", "preemption_loop"),
    ]  # fmt: skip
    assert engine.changes[-1].sentence == "Request slow was preempted again and again without a token for 1 s."


def test_a_token_of_another_request_is_no_progress() -> None:
    engine = Engine()
    engine.preempt("slow", times=2)
    engine.story.tokens("favourite", 1)
    engine.preempt("slow")
    assert len(engine.tell()) == 1


def test_a_step_that_yields_no_token_is_no_progress() -> None:
    engine = Engine()
    engine.preempt("slow", times=2)
    engine.story.begin().ops(Kind.TokensGenerated, [engine.story.of("slow")], [0], [0])
    engine.preempt("slow")
    assert len(engine.tell()) == 1


def test_the_order_within_one_message_counts() -> None:
    engine = Engine()
    engine.preempt("slow", times=2)
    engine.story.tokens("slow", 1)
    engine.preempt("slow", times=2)
    assert engine.tell() == []


def test_messages_joined_say_the_same_as_one_by_one() -> None:
    engine, joined = Engine(), PreemptionStreaks()
    engine.tell()
    for _ in range(3):
        engine.preempt("slow", recompute=7)
        engine.tell()
    joined.note(join(engine.story.messages[-3:]))
    [streak] = joined.loops().values()
    assert (streak.times, streak.recomputed) == (3, 21)
    assert streak.seq0 == engine.live.findings[0].seq0


def test_behind_a_gap_nobody_knows_whether_there_was_a_token() -> None:
    engine = Engine()
    engine.preempt("slow", times=2)
    engine.tell()
    engine.inspector.lost(Gap(5, 5, 10, 12))
    engine.preempt("slow", times=2)
    assert [finding.kind for finding in engine.tell()] == ["gap"]


def test_another_life_of_the_engine_begins_without_loops() -> None:
    engine = Engine()
    engine.preempt("slow", times=3)
    assert engine.tell()
    engine.live.begin(2, BlockMap(descriptor(), source="told", incarnation="life-2"))
    now = engine.story.clock.now
    engine.inspector.began(Begun(now, now), now, is_new_epoch=True, is_exact=True, is_asked=True)
    engine.story.clock.now += INSPECT_EVERY_NS
    engine.inspector.inspect(engine.story.clock.mono_ns())
    assert [finding for finding in engine.live.findings if finding.kind == "preemption_loop"] == []
    assert "until the engine ended" in next(one.sentence for one in reversed(engine.changes) if one.kind != "restart")


def test_it_is_bounded_and_forgets_those_preempted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptions, "MAX_FOLLOWED", 2)
    story, streaks = Story(), PreemptionStreaks()
    for name in ("a", "b", "c"):
        ordinal = story.arrive(name)
        for _ in range(3):
            story.begin().op(Kind.RequestPreempted, Cause.none, ordinal, 0, NO_ORDINAL)
    streaks.note(story.step())
    streaks.check_integrity()
    place = Place("told", 1, 0, SECOND)
    found = loop_findings(place, story.map.requests, streaks.loops())
    assert [finding.subjects.requests for finding in found] == [("b",), ("c",)]


def test_a_name_with_braces_is_told_as_it_is() -> None:
    story, streaks = Story(), PreemptionStreaks()
    ordinal = story.arrive("{0}")
    for _ in range(3):
        story.begin().op(Kind.RequestPreempted, Cause.none, ordinal, 0, NO_ORDINAL)
    streaks.note(story.step())
    [found] = loop_findings(Place("told", 1, 0, SECOND), story.map.requests, streaks.loops())
    assert found.ended(3 * SECOND).sentence.startswith("Request {0} was preempted again and again")
