"""What the engine counts against what it tells: by how much, in which direction, of which blocks, and when unknown."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from kvxray_backend.analysis.conservation import audit_finding, ref_mismatch_finding
from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding
from kvxray_backend.analysis.inspector import AUDIT_EVERY_NS, Begun, Inspector
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.live_state import LiveState
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import Cause, Kind, Totals

from tests.backend.told import SECOND, Story

PLACE = Place("told", 1, 5, 7 * SECOND)
RIGHT = Totals(num_free=5, num_hashed=2, ref_sum=4)
"""Of `at_work`: 8 usable blocks."""


def at_work() -> Story:
    """a holds 1 and 2, b holds 2 and 3; 2 and 4 carry hashes, and 4 is free."""
    story = Story()
    story.arrive("a")
    story.arrive("b")
    story.allocate("a", 1, 2, 4)
    story.cache("a", 2, 4)
    story.refer("b", 2)
    story.allocate("b", 3)
    story.free("a", 4)
    story.step()
    return story


def let_go(story: Story, who: str, block: int, after: int) -> None:
    story.begin().values(Kind.BlockDereferenced, Cause.finish, story.of(who), [block], [after])
    story.step()


def audited(**told: int) -> Finding:
    found = audit_finding(PLACE, at_work().map, msgspec.structs.replace(RIGHT, **told))
    assert found is not None
    return found


def test_totals_that_agree_are_no_finding() -> None:
    assert audit_finding(PLACE, at_work().map, RIGHT) is None


@pytest.mark.parametrize(
    ("told", "residuals", "says"),
    [
        ({"num_free": 7}, (2, 0, 0), "2 free blocks more (7, not 5): it let go of blocks and did not tell"),
        ({"num_free": 4}, (-1, 0, 0), "1 free block fewer (4, not 5): it took blocks and did not tell"),
        ({"num_hashed": 3}, (0, 1, 0), "1 hashed block more (3, not 2): its cache leads to blocks that by its events"),
        ({"num_hashed": 0}, (0, -2, 0), "2 hashed blocks fewer (0, not 2): it took blocks out of its cache"),
        ({"ref_sum": 5}, (0, 0, 1), "1 reference more (5, not 4): it took references and did not tell"),
        ({"ref_sum": 1}, (0, 0, -3), "3 references fewer (1, not 4): it gave references back and did not tell"),
    ],
)
def test_what_differs_is_told_with_its_sign_and_what_that_means(
    told: dict[str, int], residuals: tuple[int, ...], says: str
) -> None:
    found = audited(**told)
    assert found.sentence.startswith(f"Against its events the engine counts {says}")
    names = ("residual_free", "residual_hashed", "residual_references")
    assert tuple(found.numbers[name] for name in names) == residuals
    assert found.severity == "critical"


def test_what_differs_in_several_ways_is_told_in_one_sentence() -> None:
    assert audited(num_free=6, ref_sum=3).sentence == (
        "Against its events the engine counts 1 free block more (6, not 5), 1 reference fewer (3, not 4): "
        "it let go of blocks and did not tell, or counts some twice; it gave references back and did not tell."
    )


def test_nothing_is_said_while_blocks_or_holders_are_unknown() -> None:
    lost = at_work().map
    lost.forget()
    unknown_holders = at_work().map
    unknown_holders.holders_known = False
    for block_map in (lost, unknown_holders):
        assert audit_finding(PLACE, block_map, Totals()) is None
        assert ref_mismatch_finding(PLACE, block_map) is None


def test_references_that_are_holders_are_no_finding() -> None:
    assert ref_mismatch_finding(PLACE, at_work().map) is None


def test_a_block_that_one_let_go_of_twice_has_fewer_references_than_holders() -> None:
    story = at_work()
    let_go(story, "b", 2, after=1)
    assert ref_mismatch_finding(PLACE, story.map) is None
    let_go(story, "b", 2, after=0)
    found = ref_mismatch_finding(PLACE, story.map)
    assert found is not None
    assert found.sentence == "Block 2 has 1 reference fewer than holders: what is held may be given away."
    assert (found.subjects.blocks, found.subjects.requests) == ((2,), ()), "whom it was taken from is not to blame"
    assert (found.numbers["blocks_overheld"], found.numbers["residual_overheld"]) == (1, -1)
    assert (found.numbers["blocks_orphaned"], found.numbers["residual_orphaned"]) == (0, 0)


def test_references_that_nobody_holds_are_orphans() -> None:
    story = at_work()
    story.refer("b", 1, 3, after=3)  # each by one, and counted as two
    story.step()
    found = ref_mismatch_finding(PLACE, story.map)
    assert found is not None
    assert found.sentence == ("2 blocks have 2 references more than holders: nobody can let go of what nobody holds.")
    assert found.subjects.blocks == (1, 3)
    assert (found.numbers["blocks_orphaned"], found.numbers["residual_orphaned"]) == (2, 2)


def test_the_null_block_stands_for_none() -> None:
    story = at_work()
    story.refer("a", 0, after=7)
    story.step()
    assert ref_mismatch_finding(PLACE, story.map) is None
    assert audit_finding(PLACE, story.map, RIGHT) is None


def test_of_very_many_blocks_a_thousand_are_named_and_all_are_counted() -> None:
    story = Story(num_blocks=1300)
    story.arrive("a")
    story.allocate("a", *range(1, 1201))
    story.refer("a", *range(1, 1201), after=3)
    story.step()
    found = ref_mismatch_finding(PLACE, story.map)
    assert found is not None
    assert found.subjects.blocks == tuple(range(1, MAX_SUBJECTS + 1))
    assert found.numbers["blocks_orphaned"] == 1200


class Watched:
    """An inspector that looks at a story; `kinds`: what it has open."""

    def __init__(self, story: Story) -> None:
        self.story, self.live = story, LiveState("told")
        self.live.begin(1, story.map)
        now_ns = story.clock.now
        self.inspector = Inspector(self.live, story.clock, store=lambda _: None)
        self.inspector.began(Begun(now_ns, now_ns), 0, is_new_epoch=True, is_exact=True, is_asked=True)

    def kinds_after(self, message: Message, totals: Totals | None = None) -> set[str]:
        header = msgspec.structs.replace(message.header, totals=totals)
        self.inspector.folded(replace(message, header=header), ())
        self.story.clock.now += AUDIT_EVERY_NS
        self.inspector.inspect(self.story.clock.mono_ns())
        return {finding.kind for finding in self.live.findings}


def test_what_was_found_stays_while_too_much_is_unknown_to_find_it_again_and_ends_when_it_adds_up() -> None:
    story = at_work()
    watched = Watched(story)
    let_go(story, "b", 2, after=1)
    let_go(story, "b", 2, after=0)
    assert watched.kinds_after(story.messages[-1], Totals()) == {"audit", "ref_mismatch"}
    story.map.holders_known = False
    assert watched.kinds_after(story.messages[-1]) == {"audit", "ref_mismatch"}
    story.map.holders_known = True
    let_go(story, "a", 2, after=0)
    assert watched.kinds_after(story.messages[-1], Totals(num_free=6, num_hashed=2, ref_sum=2)) == set()
