"""Order out of disorder: whatever is lost, doubled or late, messages come out once, in order, and holes are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.sources.sequencer import MAX_HOLD_BYTES, MAX_HOLD_NS, TAIL_GRACE_NS, Gap, Sequencer

from tests.backend.told import bare_message

EVENTS = 3
"""Events of each message here: message w holds events 3w to 3w + 2."""


def told(wire_seq: int):
    return bare_message(wire_seq, wire_seq * EVENTS, EVENTS)


def numbers(messages) -> list[int]:
    return [message.header.wire_seq for message in messages]


def test_messages_in_order_pass_through() -> None:
    sequencer = Sequencer(5, 15)
    for wire_seq in (5, 6, 7):
        sequencer.offer(told(wire_seq), 10, 0)
        sequencer.check_integrity()
    assert numbers(sequencer.take(0)) == [5, 6, 7]
    assert (sequencer.next_wire_seq, sequencer.next_seq, sequencer.held_bytes) == (8, 24, 0)
    assert sequencer.hole() is None


def test_what_comes_after_a_hole_waits_for_it() -> None:
    sequencer = Sequencer(0, 0)
    for wire_seq in (0, 3, 4):
        sequencer.offer(told(wire_seq), 10, wire_seq)
    assert numbers(sequencer.take(4)) == [0]
    hole = sequencer.hole()
    assert hole is not None
    assert (hole.wire_seq0, hole.wire_seq1, hole.is_tail) == (1, 2, False)
    sequencer.offer(told(2), 10, 5)
    sequencer.offer(told(1), 10, 5)
    assert numbers(sequencer.take(5)) == [1, 2, 3, 4]


def test_a_hole_given_up_says_which_events_are_missing() -> None:
    sequencer = Sequencer(0, 0)
    sequencer.offer(told(2), 10, 0)
    assert sequencer.give_up(0) == Gap(0, 1, 0, 5)
    assert numbers(sequencer.take(0)) == [2]


def test_what_only_a_heartbeat_told_of_is_a_hole_without_an_end() -> None:
    sequencer = Sequencer(0, 0)
    sequencer.hear(1, 7)
    hole = sequencer.hole()
    assert hole is not None
    assert (hole.wire_seq0, hole.wire_seq1, hole.since_ns, hole.is_tail) == (0, 1, 7, True)
    assert sequencer.give_up(7) == Gap(0, 1, 0, None)
    assert sequencer.next_wire_seq == 2


def test_late_ones_and_duplicates_are_dropped_and_counted() -> None:
    sequencer = Sequencer(4, 12)
    sequencer.offer(told(3), 10, 0)
    sequencer.offer(told(5), 10, 0)
    sequencer.offer(told(5), 10, 0)
    assert sequencer.duplicates == 2
    assert sequencer.held_bytes == 10


@pytest.mark.parametrize(
    ("waited_ns", "num_bytes", "replay_answered", "overdue"),
    [
        (0, 10, False, False),
        (0, 10, True, True),
        (MAX_HOLD_NS - 1, 10, False, False),
        (MAX_HOLD_NS, 10, False, True),
        (0, MAX_HOLD_BYTES + 1, False, True),
    ],
)
def test_a_hole_is_waited_for_2_seconds_or_64_mb_while_replay_may_fill_it(
    waited_ns: int, num_bytes: int, replay_answered: bool, overdue: bool
) -> None:
    sequencer = Sequencer(0, 0)
    sequencer.offer(told(1), num_bytes, 0)
    assert sequencer.is_overdue(waited_ns, replay_answered=replay_answered) is overdue


def test_the_end_of_the_stream_is_given_a_moment_to_arrive() -> None:
    sequencer = Sequencer(0, 0)
    sequencer.hear(0, 0)
    assert not sequencer.is_overdue(TAIL_GRACE_NS - 1, replay_answered=True)
    assert sequencer.is_overdue(TAIL_GRACE_NS, replay_answered=True)


@given(
    order=st.permutations(range(12)),
    lost=st.sets(st.integers(0, 11)),
    doubled=st.lists(st.integers(0, 11), max_size=8),
    patience=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_any_disorder_yields_each_message_once_in_order_and_accounts_for_the_rest(
    order, lost, doubled, patience
) -> None:
    sequencer = Sequencer(0, 0)
    taken: list[int] = []
    gaps: list[Gap] = []

    def collect(now: int) -> None:
        for message in sequencer.take(now):
            assert message.header.seq0 >= (3 * (taken[-1] + 1) if taken else 0)
            taken.append(message.header.wire_seq)

    for now, wire_seq in enumerate([*order, *doubled]):
        if wire_seq not in lost:
            sequencer.offer(told(wire_seq), 10, now)
        sequencer.check_integrity()
        collect(now)
        if not patience[now % 12] and sequencer.hole() is not None:
            gaps.append(sequencer.give_up(now))
            collect(now)
        sequencer.check_integrity()
    sequencer.hear(11, 99)
    while sequencer.hole() is not None:
        gaps.append(sequencer.give_up(99))
        collect(99)
        sequencer.check_integrity()
    missing = [number for gap in gaps for number in range(gap.wire_seq0, gap.wire_seq1 + 1)]
    assert taken == sorted(set(taken))
    assert sorted([*taken, *missing]) == list(range(12))
    for gap in gaps:
        assert gap.seq0 == gap.wire_seq0 * EVENTS
        assert gap.seq1 in (None, gap.wire_seq1 * EVENTS + EVENTS - 1)
