"""Thousands of open findings: pages get the most telling of them, the true number, and those of what is inspected."""

from __future__ import annotations

from kvxray_backend import views
from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.live_state import LiveState
from kvxray_backend.request_table_view import request_view
from kvxray_backend.told_findings import MOST_TOLD, the_most_telling
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import Kind

from tests.backend.told import Story


def finding(number: int, kind: str = "leak") -> Finding:
    return Finding(
        id=f"{kind}:{number}", kind=kind, severity="critical", source="told", epoch=1, seq0=1, seq1=1, time_ns=number,
        subjects=Subjects(blocks=(number,), requests=(f"r{number}",)), sentence=f"{kind} {number}",
    )  # fmt: skip


def test_few_findings_are_all_told_as_they_stand() -> None:
    few = [finding(2), finding(1, "gap"), finding(3)]
    assert the_most_telling(few) == few


def test_of_too_many_every_kind_is_told_and_of_each_the_newest() -> None:
    many = [finding(0, "gap"), *(finding(number) for number in range(1, 5001)), finding(7, "drops")]
    told = the_most_telling(many)
    assert [one.id for one in told] == ["gap:0", *(f"leak:{number}" for number in range(4903, 5001)), "drops:7"]
    assert len(told) == MOST_TOLD


def test_a_summary_of_5000_leaks_is_small_and_says_how_many_there_are() -> None:
    live = leaking(5000)
    summary = views.summary(live)
    assert (len(summary.findings), summary.num_findings, summary.leaking_requests) == (MOST_TOLD, 5000, 5000)
    assert summary.state is not None
    assert summary.state.findings == [one.id for one in summary.findings]
    assert len(summary.model_dump_json()) < 128 * 1024


def test_a_block_and_a_request_tell_their_own_findings_whatever_a_summary_leaves_out() -> None:
    live = leaking(5000)
    assert "leak:3" not in {one.id for one in views.summary(live).findings}
    block = views.block_view(live, 3, [])
    assert block is not None
    assert [one.id for one in block.findings] == ["leak:3"]
    request = request_view(live, "r3")
    assert request is not None
    assert [one.id for one in request.findings] == ["leak:3"]


def test_a_block_beyond_the_thousand_that_a_leak_lists_tells_of_it_too() -> None:
    story = Story(num_blocks=1300)
    story.arrive("hoarder")
    story.allocate("hoarder", *range(1, 1201))
    story.arrive("alive")
    story.allocate("alive", 1201)
    story.end("hoarder", Kind.RequestAborted)
    story.step(seconds=10)
    live = LiveState("told")
    live.begin(1, story.map)
    leaks = find_leaks(story.map, EngineTime(story.clock.now, story.step_number + 5, False))
    live.mark_leaks(leaks)
    live.findings = tuple(leak.finding("told", 1, 1, story.clock.now) for leak in leaks)
    assert 1200 not in live.findings[0].subjects.blocks
    for block_id, told in ((1, ["leak:told:1:0"]), (1200, ["leak:told:1:0"]), (1201, [])):
        block = views.block_view(live, block_id, [])
        assert block is not None
        assert [one.id for one in block.findings] == told


def leaking(number: int) -> LiveState:
    story = Story(num_blocks=16)
    for name in ("r1", "r2", "r3"):
        story.arrive(name)
        story.allocate(name, int(name[1:]))
    story.step()
    live = LiveState("told")
    live.begin(1, story.map)
    live.findings = tuple(finding(at) for at in range(1, number + 1))
    return live
