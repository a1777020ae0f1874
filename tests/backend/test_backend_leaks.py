"""Which holds leak: those of the dead, after the grace, by the engine's own time."""

from __future__ import annotations

import numpy as np
import pytest
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.analysis.leaks import Leak, lasting
from kvxray_backend.stored_findings import finding_of, row_of
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import Cause, Kind, Name

from tests.backend.told import SECOND, Story


def later(story: Story, seconds: float, steps: int, *, is_idle: bool = False) -> EngineTime:
    return EngineTime(story.clock.now + int(seconds * SECOND), story.step_number + steps, is_idle)


def told_of_a_dead_holder(kind: Kind = Kind.RequestAborted) -> Story:
    story = Story()
    story.arrive("agent-07/3")
    story.allocate("agent-07/3", 1, 2, 3)
    story.end("agent-07/3", kind)
    story.step()
    return story


@pytest.mark.parametrize(
    ("seconds", "steps", "is_idle", "leaks"),
    [
        (3.1, 2, False, True),
        (3.1, 1, False, False),
        (2.9, 50, False, False),
        (3.1, 0, True, True),
        (2.9, 0, True, False),
    ],
)
def test_the_grace_is_3_seconds_and_2_steps_or_time_alone_for_an_idle_engine(
    seconds: float, steps: int, is_idle: bool, leaks: bool
) -> None:
    story = told_of_a_dead_holder()
    assert bool(find_leaks(story.map, later(story, seconds, steps, is_idle=is_idle))) is leaks


@pytest.mark.parametrize(
    ("kind", "why"),
    [(Kind.RequestAborted, "aborted"), (Kind.RequestFinished, "finished"), (Kind.RequestFailed, "failed")],
)
def test_a_leak_is_one_sentence_with_its_request_and_blocks(kind: Kind, why: str) -> None:
    story = told_of_a_dead_holder(kind)
    now = later(story, 12, 5)
    (leak,) = find_leaks(story.map, now)
    assert leak.blocks.tolist() == [1, 2, 3]
    finding = leak.finding("told", 1, 9, now.t_ns)
    assert finding.sentence == (
        f"Leak: request agent-07/3, {why} 12 s ago, still holds 3 blocks, all of them held by nobody living (3.0 KiB)."
    )
    assert finding.subjects.blocks == (1, 2, 3)
    assert finding.subjects.requests == ("agent-07/3",)
    assert finding.numbers == {"blocks": 3, "blocks_only": 3, "bytes_only": 3 * 1024, "ended_s_ago": 12}
    over = finding.ended(now.t_ns + 4 * SECOND)
    assert over.sentence == (
        f"Leak: request agent-07/3, {why}, held 3 blocks after its end; released 4 s after it was noticed."
    )
    cut_off = finding.ended(now.t_ns + 4 * SECOND, with_engine=True)
    assert cut_off.sentence == f"Leak: request agent-07/3, {why}, held 3 blocks until the engine ended."
    for told in (finding, over, cut_off):
        for known in (told, finding_of(row_of(told))):
            assert known.mark == f"Leak: request agent-07/3, {why}, still holds blocks.", (
                "true of its moment, whenever told"
            )


def test_a_leak_that_is_kept_to_be_read_later_does_not_say_how_long_ago() -> None:
    story = told_of_a_dead_holder()
    now = later(story, 12, 5)
    (leak,) = find_leaks(story.map, now)
    kept = lasting(leak.finding("told", 1, 9, now.t_ns))
    assert kept.sentence == (
        "Leak: request agent-07/3, aborted, still holds 3 blocks, all of them held by nobody living (3.0 KiB)."
    )
    assert kept.numbers == {"blocks": 3, "blocks_only": 3, "bytes_only": 3 * 1024}
    assert lasting(kept) == kept


def test_an_engine_of_which_requests_only_wait_is_idle_as_its_own_totals_say() -> None:
    story = told_of_a_dead_holder()
    story.arrive("waits")
    story.step()
    assert EngineTime.folded(story.map).is_idle
    story.schedule("waits")
    story.step()
    assert not EngineTime.folded(story.map).is_idle


def test_a_known_leak_goes_on_when_an_idle_engine_works_again() -> None:
    story = told_of_a_dead_holder()
    assert find_leaks(story.map, later(story, 10, 0, is_idle=True))
    works_again = later(story, 11, 1)
    assert find_leaks(story.map, works_again) == []
    assert [leak.holder for leak in find_leaks(story.map, works_again, {story.of("agent-07/3")})] == [0]


def test_the_living_never_leak() -> None:
    story = Story()
    story.arrive("alive")
    story.allocate("alive", 1, 2)
    story.step()
    assert find_leaks(story.map, later(story, 3600, 1000)) == []


def test_cached_blocks_of_the_dead_are_no_leak() -> None:
    story = Story()
    story.arrive("done")
    story.allocate("done", 1, 2)
    story.cache("done", 1, 2)
    story.free("done", 1, 2)
    story.end("done")
    story.step()
    assert find_leaks(story.map, later(story, 3600, 1000)) == []


def test_a_block_of_a_living_and_a_dead_holder_carries_one_leaked_hold() -> None:
    story = Story()
    story.arrive("dead")
    story.allocate("dead", 1, 2)
    story.arrive("alive")
    story.refer("alive", 1, after=2)
    story.end("dead", Kind.RequestAborted)
    story.step()
    (leak,) = find_leaks(story.map, later(story, 4, 3))
    assert leak.request_id == "dead"
    assert leak.blocks.tolist() == [1, 2]
    assert leak.blocks_only.tolist() == [2]
    assert story.map.ref[1] == 2
    assert ", still holds 2 blocks, 1 of them held by nobody living (1.0 KiB)." in leak.sentence(story.clock.now)


def test_blocks_that_only_the_dead_hold_are_counted_for_each_of_them() -> None:
    story = Story()
    for name in ("dead", "dead too", "alive"):
        story.arrive(name)
    story.allocate("dead", 1, 2, 3)
    story.refer("dead too", 1, 2, after=2)
    story.refer("alive", 1, after=3)
    story.end("dead", Kind.RequestAborted)
    story.end("dead too", Kind.RequestFailed)
    story.step()
    first, second = find_leaks(story.map, later(story, 4, 3))
    assert (first.blocks.tolist(), first.blocks_only.tolist()) == ([1, 2, 3], [2, 3])
    assert (second.blocks.tolist(), second.blocks_only.tolist()) == ([1, 2], [2])
    # While one of them is within its grace, it counts as living.
    story.arrive("late")
    story.refer("late", 3, after=2)
    story.end("late")
    story.step()
    first, _ = find_leaks(story.map, later(story, 4, 1))
    assert first.blocks_only.tolist() == [2]


def test_a_leak_of_shared_blocks_alone_says_so_and_bytes_are_told_only_where_they_are_known() -> None:
    blocks, none = np.array([4, 5], np.uint32), np.zeros(0, np.uint32)
    shared = Leak(0, "r", "aborted", 0, blocks, none, 1024)
    assert shared.sentence(SECOND).endswith(" still holds 2 blocks, all of them held by others too.")
    one = Leak(0, "r", "aborted", 0, blocks[:1], none, 1024)
    assert one.sentence(SECOND).endswith(" still holds 1 block, held by others too.")
    unsized = Leak(0, "r", "aborted", 0, blocks, blocks)
    assert unsized.sentence(SECOND).endswith(" still holds 2 blocks, all of them held by nobody living.")
    assert "bytes_only" not in unsized.finding("told", 1, 0, SECOND).numbers
    large = Leak(0, "r", "aborted", 0, blocks, blocks, 737_280 * 10)
    assert large.sentence(SECOND).endswith(" held by nobody living (14.1 MiB).")


def test_a_sequence_leaks_with_its_request() -> None:
    story = Story()
    parent = story.arrive("parent")
    story.begin()
    story._ordinals["parent/1"] = story.recorder.new_holder(_name("parent/1", "sequence", parent=parent))
    story.allocate("parent/1", 4)
    story.end("parent")
    story.step()
    (leak,) = find_leaks(story.map, later(story, 4, 3))
    assert leak.request_id == "parent/1"


def test_a_lease_leaks_after_its_deadline_and_a_pin_never() -> None:
    story = Story()
    deadline = story.clock.now + 5 * SECOND
    story.begin()
    story._ordinals["lease"] = story.recorder.new_holder(_name("lease", "lease", deadline=deadline))
    story._ordinals["pin"] = story.recorder.new_holder(_name("pin", "pin"))
    story.allocate("lease", 1)
    story.allocate("pin", 2)
    story.step()
    assert find_leaks(story.map, later(story, 7.9, 0)) == []
    (leak,) = find_leaks(story.map, later(story, 8.1, 0))
    assert (
        leak.finding("told", 1, 0, deadline + 9 * SECOND).sentence
        == "Leak: lease lease, expired 9 s ago, still holds 1 block, held by nobody living (1.0 KiB)."
    )


def test_blocks_released_late_end_the_leak() -> None:
    story = told_of_a_dead_holder()
    assert find_leaks(story.map, later(story, 4, 3))
    story.free("agent-07/3", 1, 2, 3, cause=Cause.abort)
    story.step()
    assert find_leaks(story.map, later(story, 4, 3)) == []


def _name(id: str, kind: str, parent: int = -1, deadline: int = 0) -> Name:
    return Name(id, kind=kind, parent=parent, deadline=deadline)


def test_holders_that_leak_the_same_blocks_are_told_apart_from_those_that_share_with_the_living() -> None:
    story = Story(num_blocks=9)
    for name in ("dead-1", "dead-2", "living"):
        story.arrive(name)
    story.allocate("dead-1", 3, 1, 2)
    story.refer("dead-2", 2, 3)
    story.refer("living", 3, after=3)
    story.allocate("dead-2", 5)
    story.end("dead-1")
    story.end("dead-2", Kind.RequestAborted)
    story.step()
    leaks = find_leaks(story.map, later(story, 4, 2))
    told = [(leak.request_id, leak.blocks.tolist(), leak.blocks_only.tolist()) for leak in leaks]
    assert told == [("dead-1", [1, 2, 3], [1, 2]), ("dead-2", [2, 3, 5], [2, 5])]


def test_one_hold_of_a_thousand_leaks_ends_and_the_others_are_told_as_before() -> None:
    story = Story(num_blocks=2001)
    for at in range(1, 1001):
        story.arrive(f"r{at}")
        story.allocate(f"r{at}", at, 1000 + at)
        story.end(f"r{at}", Kind.RequestFailed)
    story.free("r500", 500, 1500)
    story.step()
    leaks = find_leaks(story.map, later(story, 4, 2))
    told = {leak.request_id: leak.blocks.tolist() for leak in leaks}
    assert told == {f"r{at}": [at, 1000 + at] for at in range(1, 1001) if at != 500}
