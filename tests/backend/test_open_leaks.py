"""Leaks are kept up to date look by look: what is told, stored and ended is what full looks would tell."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_backend.analysis.ended_holders import MAX_SPAN, are_among
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.leak_search import LeakSearch
from kvxray_backend.analysis.leaks import Leak, holder_of
from kvxray_backend.analysis.open_findings import OpenFindings
from kvxray_backend.analysis.open_leaks import OpenLeaks
from kvxray_backend.analysis.stream_health import Place
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime, end_of
from kvxray_engine.stream.schema import Cause, Kind, RequestStatus

from tests.backend.told import SECOND, Story

BLOCKS = 8
WHY = {
    None: "expired",
    RequestStatus.finished: "finished",
    RequestStatus.aborted: "aborted",
    RequestStatus.failed: "failed",
}
Deed = tuple[str, int, int]
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("request", "sequence", "pin", "lease", "release", "gap", "epoch", "back"),
                *3 * ("hold", "look"),
                "end",
                "step",
            ]
        ),
        st.integers(0, 11),
        st.integers(1, BLOCKS - 1),
    ),
    max_size=60,
)


def looked_at_one_by_one(block_map: BlockMap, now: EngineTime, known: Set[int]) -> list[Leak]:
    """Each hold by itself, by the rule of holder_ends."""
    held: dict[int, set[int]] = {}
    for block, holder in zip(*(column.tolist() for column in block_map.holds()), strict=True):
        if block != block_map.descriptor.null_block:
            held.setdefault(holder, set()).add(block)
    ends = {one: end_of(block_map.requests, one, now, is_past_grace=one in known) for one in sorted(held)}
    over = {one: end for one, end in ends.items() if end is not None}
    leaks = []
    for holder, end in over.items():
        blocks = sorted(held[holder])
        # The fold may know of references without holders: then others may hold it too.
        only = [
            one for one in blocks
            if {*block_map.holders_of(one)} <= over.keys() and len(block_map.holders_of(one)) == block_map.ref[one]
        ]  # fmt: skip
        name = block_map.requests.names.get(holder)
        leaks.append(
            Leak(
                holder, name.id if name is not None else f"#{holder}", WHY[end.status], end.ended_ns,
                np.array(blocks, np.uint32), np.array(only, np.uint32), block_map.descriptor.bytes_per_block,
            )
        )  # fmt: skip
    return leaks


class LooksInFull:
    """What a source's findings were before anything was kept: every leak made anew at each look."""

    def __init__(self, book: FindingsBook) -> None:
        self.book = book

    def look(self, place: Place, block_map: BlockMap, now: EngineTime) -> list[Leak]:
        known = {holder_of(one) for one in self.book.open if one.epoch == place.epoch}
        leaks = looked_at_one_by_one(block_map, now, known)
        found = [leak.finding(place.source, place.epoch, place.seq, place.t_ns) for leak in leaks]
        self.book.reconcile("leak", found, place.t_ns, is_all=block_map.holders_known)
        return leaks


class TwoWays:
    """One pool that is looked at both ways, and what each has stored."""

    def __init__(self) -> None:
        self.stored: tuple[list[Finding], list[Finding]] = ([], [])
        self.books = FindingsBook(self.stored[0].append), FindingsBook(self.stored[1].append)
        self.kept, self.full = OpenLeaks(self.books[0]), LooksInFull(self.books[1])
        self.epoch = 0
        self.begin()

    def begin(self) -> None:
        self.epoch += 1
        self.story = Story(BLOCKS)
        self.names: list[str] = []
        for book in self.books:
            book.end_other_epochs(self.epoch, ("leak",), self.story.clock.now)
        self.back_ns = 0

    def do(self, deed: Deed) -> None:
        what, who, block = deed
        story, name = self.story, self.names[who % len(self.names)] if self.names else ""
        deeds: dict[str, Callable[[], object]] = {
            "request": lambda: self.arrive("request"),
            "sequence": lambda: self.arrive("sequence", parent=story.of(name)) if name else None,
            "pin": lambda: self.arrive("pin"),
            "lease": lambda: self.arrive("lease", deadline=story.clock.now + who * SECOND),
            "hold": lambda: self.hold(name, block) if name else None,
            "release": lambda: self.release(block),
            "end": lambda: story.end(name, [*WHY_ENDED][who % 3]) if name else None,
            "step": lambda: (story.begin(), story.step(seconds=who / 2)),
            "look": lambda: self.look(is_idle=block % 2 == 0, later_s=who),
            "gap": self.gap,
            "epoch": self.begin,
            "back": lambda: setattr(self, "back_ns", self.back_ns + 3600 * SECOND),
        }
        deeds[what]()

    def arrive(self, kind: str, **fields: object) -> None:
        self.names.append(f"{kind}-{len(self.names)}")
        self.story.arrive(self.names[-1], kind=kind, **fields)

    def hold(self, name: str, block: int) -> None:
        self.settle()
        ref = int(self.story.map.ref[block])
        if ref == 0 or ref > BLOCKS * 10:
            self.story.allocate(name, block)
        else:
            self.story.refer(name, block, after=ref + 1)

    def release(self, block: int) -> None:
        self.settle()
        held, ref = self.story.map.holders_of(block), int(self.story.map.ref[block])
        if held and ref == 1:
            self.story.begin().rows(Kind.BlockFreed, Cause.finish, held[0], [block], 0)
        elif held and ref < BLOCKS * 100:
            self.story.begin().values(Kind.BlockDereferenced, Cause.finish, held[0], [block], [ref - 1])

    def gap(self) -> None:
        self.settle()
        self.story.map.forget()

    def settle(self) -> None:
        """What was told so far is folded."""
        self.story.begin()
        self.story.step()

    def look(self, *, is_idle: bool, later_s: int) -> None:
        self.settle()
        t_ns = self.story.clock.now + later_s * SECOND - self.back_ns
        now = EngineTime(t_ns, self.story.step_number + later_s % 4, is_idle)
        place = Place("told", self.epoch, self.story.map.next_seq, t_ns)
        ours, theirs = self.kept.look(place, self.story.map, now), self.full.look(place, self.story.map, now)
        assert [told(leak) for leak in ours] == [told(leak) for leak in theirs]
        self.compare()

    def compare(self) -> None:
        for book in self.books:
            book.check_integrity()
        assert OpenFindings(self.books[0].open, self.books[0].aged).told == self.books[1].open
        assert self.stored[0] == self.stored[1]


WHY_ENDED = (Kind.RequestFinished, Kind.RequestAborted, Kind.RequestFailed)


def told(leak: Leak) -> tuple[object, ...]:
    return (
        leak.holder, leak.request_id, leak.why, leak.ended_ns, leak.blocks.tolist(), leak.blocks_only.tolist(),
        leak.bytes_per_block,
    )  # fmt: skip


def leaking(num: int) -> TwoWays:
    both = TwoWays()
    for at in range(num):
        both.arrive("request")
        both.hold(both.names[-1], 1 + at)
        both.story.end(both.names[-1])
    both.look(is_idle=True, later_s=10)
    return both


@given(st.integers(0, 3), DEEDS)
@settings(max_examples=300, deadline=None)
def test_leaks_that_are_kept_are_those_that_a_full_look_finds_and_are_told_and_stored_alike(
    num: int, deeds: list[Deed]
) -> None:
    both = leaking(num)
    for deed in deeds:
        both.do(deed)
    both.look(is_idle=True, later_s=10)
    both.begin()
    both.compare()


def test_what_has_not_changed_is_neither_looked_up_nor_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    both = leaking(3)
    made: list[int] = []
    finding = Leak.finding
    monkeypatch.setattr(Leak, "finding", lambda leak, *place: (made.append(leak.holder), finding(leak, *place))[1])
    story, now = both.story, EngineTime(both.story.clock.now + 20 * SECOND, 9, True)
    place = Place("told", 1, 9, now.t_ns)
    before = both.kept.look(place, story.map, now)
    assert both.kept.look(replace(place, t_ns=now.t_ns + SECOND), story.map, now) is before
    assert made == []
    both.hold(both.names[0], 5)
    both.settle()
    after = both.kept.look(place, story.map, now)
    assert made == [before[0].holder]
    assert [a is b for a, b in zip(after, before, strict=True)] == [False, True, True]


def test_an_age_is_told_only_to_who_reads_it_and_as_of_the_look() -> None:
    both = leaking(2)
    first = OpenFindings(both.books[0].open, both.books[0].aged)
    both.look(is_idle=True, later_s=30)
    second = OpenFindings(both.books[0].open, both.books[0].aged)
    assert [" 10 s ago" in one.sentence for one in first.told] == [True, True]
    assert [" 30 s ago" in one.sentence for one in second.told] == [True, True]
    assert [one.numbers["ended_s_ago"] for one in second.told] == [30, 30]
    assert second.told is second.told
    assert second.tell(second.found[1:]) == [second.told[1]]


def test_what_nobody_can_see_any_more_keeps_the_age_it_had_and_ends_with_its_engine() -> None:
    both = leaking(1)
    both.look(is_idle=True, later_s=20)
    both.gap()
    for later_s in (30, 40):
        both.look(is_idle=True, later_s=later_s)
        (seen_last,) = OpenFindings(both.books[0].open, both.books[0].aged).told
        assert " 20 s ago" in seen_last.sentence
    both.begin()
    ended = both.stored[0][-1]
    assert (ended.state, ended.numbers["ended_s_ago"]) == ("ended", 20)


def test_of_as_many_holds_as_before_others_may_leak() -> None:
    both = leaking(2)
    both.release(2)
    both.hold(both.names[0], 3)
    both.settle()
    both.look(is_idle=True, later_s=10)
    assert [leak.blocks.tolist() for leak in both.kept._leaks] == [[1, 3]]


def test_who_leaked_before_leaks_on_though_the_engine_works_again() -> None:
    both = leaking(1)
    place = Place("told", 1, 9, both.story.clock.now + 10 * SECOND)
    works = EngineTime(place.t_ns, both.story.step_number - 2, False)
    assert len(both.kept.look(place, both.story.map, works)) == 1
    assert LeakSearch().look(both.story.map, works) == ()


@pytest.mark.parametrize("apart", [1, 1000, MAX_SPAN, 2**31 - 10])
def test_holders_are_found_among_others_however_far_apart_they_are(apart: int) -> None:
    some = np.array([5, 5 + apart], np.uint32)
    holders = np.array([0, 4, 5, 6, 4 + apart, 5 + apart, 6 + apart, 2**32 - 1, 5], np.uint32)
    assert are_among(holders, some).tolist() == np.isin(holders, some).tolist()
    assert are_among(holders, some[:0]).tolist() == [False] * 9
    assert are_among(holders[:0], some).tolist() == []
