"""What happened before the join, fetched for the history: asked for in parts, stored in order, holes told once."""

from __future__ import annotations

from kvxray_backend.sources.backfill import MAX_WAIT_NS, Backfill
from kvxray_backend.sources.replay_desk import ASK_AGAIN_NS, ReplayDesk
from kvxray_backend.sources.sequencer import Gap

from tests.backend.told import bare_message


def told(wire_seq: int):
    return bare_message(wire_seq, wire_seq)


def stored(backfill: Backfill) -> list[int | Gap]:
    return [part if isinstance(part, Gap) else part.header.wire_seq for part in backfill.finish(0)]


def test_a_complete_answer_is_stored_in_order() -> None:
    backfill = Backfill(0, 3, 0, 3, goes_on=False, now_ns=0)
    assert backfill.wanted() == (0, 2)
    for wire_seq in (0, 1, 2):
        assert backfill.covers(wire_seq)
        backfill.offer(told(wire_seq), 1, 0)
    assert not backfill.covers(3)
    backfill.answer_ended(0, 0)
    assert backfill.is_over(0)
    assert stored(backfill) == [0, 1, 2]


def test_an_answer_cut_short_is_asked_on_from_where_it_ended() -> None:
    backfill = Backfill(0, 4, 0, 4, goes_on=False, now_ns=0)
    backfill.offer(told(0), 1, 0)
    backfill.answer_ended(0, 0)
    assert not backfill.is_over(0)
    assert backfill.wanted() == (1, 3)
    for wire_seq in (1, 2, 3):
        backfill.offer(told(wire_seq), 1, 0)
    backfill.answer_ended(1, 0)
    assert stored(backfill) == [0, 1, 2, 3]


def test_history_that_goes_on_tells_what_is_missing_at_its_seam() -> None:
    backfill = Backfill(5, 9, 5, 9, goes_on=True, now_ns=0)
    for wire_seq in (7, 8):
        backfill.offer(told(wire_seq), 1, 0)
    backfill.answer_ended(5, 0)
    assert stored(backfill) == [Gap(5, 6, 5, 6), 7, 8]


def test_new_history_begins_where_it_can() -> None:
    backfill = Backfill(0, 9, 0, 9, goes_on=False, now_ns=0)
    for wire_seq in (5, 7, 8):
        backfill.offer(told(wire_seq), 1, 0)
    backfill.answer_ended(0, 0)
    assert stored(backfill) == [5, Gap(6, 6, 6, 6), 7, 8]


def test_no_answer_in_time_leaves_a_gap_up_to_the_snapshot() -> None:
    backfill = Backfill(5, 9, 5, 20, goes_on=True, now_ns=0)
    assert not backfill.is_over(MAX_WAIT_NS - 1)
    assert backfill.is_over(MAX_WAIT_NS)
    assert stored(backfill) == [Gap(5, 8, 5, 19)]


def test_nothing_before_the_snapshot_is_over_at_once() -> None:
    backfill = Backfill(9, 9, 9, 9, goes_on=True, now_ns=0)
    assert backfill.is_over(0)
    assert stored(backfill) == []


class Asked:
    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def request_snapshot(self) -> None:
        raise AssertionError("a desk asks for replay alone")

    def request_replay(self, first: int, last: int) -> None:
        self.ranges.append((first, last))


def test_an_answer_belongs_to_the_newest_request_only_when_none_is_owed_before_it() -> None:
    asked = Asked()
    desk = ReplayDesk(asked)
    desk.ask(1, 2, 0)
    assert not desk.may_ask(ASK_AGAIN_NS - 1)
    assert desk.may_ask(ASK_AGAIN_NS)
    desk.ask(5, 5, ASK_AGAIN_NS)
    assert desk.ended() is None
    assert desk.ended() == (5, 5)
    assert desk.may_ask(ASK_AGAIN_NS)
    assert asked.ranges == [(1, 2), (5, 5)]


def test_the_answer_to_a_dropped_request_is_nobodys() -> None:
    desk = ReplayDesk(Asked())
    desk.ask(1, 2, 0)
    desk.drop()
    desk.ask(7, 7, 0)
    assert desk.ended() is None
    assert desk.ended() == (7, 7)
