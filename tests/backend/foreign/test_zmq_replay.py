"""Replay over real sockets: what the wire lost comes again, or is told as lost, and nothing waits for it."""

from __future__ import annotations

import pytest
from kvxray_backend.sources.foreign.batch_steps import Apply, GapOpened, JoinedMidstream
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher, ReplayEnded

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.foreign.zmq_hearing import Followed, hearing, line_to, take


@pytest.mark.parametrize("old_framing", [True, False])
def test_replay_is_understood_in_both_framings(old_framing: bool) -> None:
    with EngineRig(old_framing=old_framing) as rig, hearing(line_to(rig)) as stream:
        rig.publish(5, is_heard=False)
        publisher = Publisher(0, rig.topic)
        stream.ask_replay(publisher, 2)
        items = take(stream, 4)
        assert [(item.publisher, item.seq, item.replay_start) for item in items if isinstance(item, Heard)] == [
            (publisher, seq, 2) for seq in (2, 3, 4)
        ]
        assert items[-1] == ReplayEnded(publisher, 2, 0)


@pytest.mark.parametrize("old_framing", [True, False])
def test_what_the_wire_lost_is_repaired_by_replay_in_order(old_framing: bool) -> None:
    with EngineRig(old_framing=old_framing) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(10)
        rig.publish(7, is_heard=False)
        rig.publish(3)
        followed.until(lambda: len(followed.applied) == 20)
        assert followed.applied == list(range(20))
        assert [type(step) for _, step in followed.steps] == [Apply] * 20


def test_who_joins_midstream_has_all_that_the_buffer_holds_and_says_from_where() -> None:
    with EngineRig(buffer_steps=5) as rig, hearing(line_to(rig)) as stream:
        rig.publish(12, is_heard=False)
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        followed.until(lambda: len(followed.applied) == 5)
        assert followed.applied == [8, 9, 10, 11, 12]
        assert followed.of(JoinedMidstream) == [JoinedMidstream(8)]


def test_an_answer_that_begins_later_than_asked_tells_what_is_lost() -> None:
    with EngineRig(buffer_steps=4) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        followed.until(lambda: followed.applied == [0])
        rig.publish(9, is_heard=False)
        rig.publish(1)
        followed.until(lambda: len(followed.applied) == 5)
        assert followed.of(GapOpened) == [GapOpened(1, 6)]
        assert followed.applied == [0, 7, 8, 9, 10]


def test_an_answer_of_nothing_but_its_end_tells_the_gap() -> None:
    with EngineRig(buffer_steps=0) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        rig.publish(1, is_heard=False)
        rig.publish(1)
        followed.until(lambda: followed.applied == [0, 2])
        assert followed.of(GapOpened) == [GapOpened(1, 1)]


def test_a_replay_socket_that_never_answers_does_not_hold_the_stream_up() -> None:
    with EngineRig(answers=False) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        rig.publish(1, is_heard=False)
        rig.publish(2)
        followed.until(lambda: followed.applied == [0, 2, 3])
        assert followed.of(GapOpened) == [GapOpened(1, 1)]
        assert rig.num_requests == 1
