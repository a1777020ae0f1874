"""What waits to be taken is bounded: what does not fit is told in its place."""

from __future__ import annotations

from kvxray_backend.sources.foreign.hand_over import Dropped, HandOver, Heard, Publisher


def heard(seq: int, num_bytes: int = 100, replay_start: int | None = None) -> Heard:
    return Heard(Publisher(0, b"t"), seq, bytes(num_bytes), 0, replay_start)


def test_what_does_not_fit_is_told_where_it_would_have_stood() -> None:
    hand_over = HandOver(1000)
    assert [hand_over.put(heard(seq)) for seq in range(4)] == [True, True, False, False]
    hand_over.check_integrity()
    assert hand_over.take(0, 1) == [heard(0)]
    assert hand_over.put(heard(4))
    hand_over.check_integrity()
    assert hand_over.take(0, 10) == [heard(1), Dropped(Publisher(0, b"t"), 2, 3), heard(4)]
    hand_over.check_integrity()
    assert hand_over.num_dropped == 2


def test_a_long_answer_does_not_push_out_what_is_heard_live() -> None:
    hand_over = HandOver(1000)
    assert [hand_over.put(heard(seq, replay_start=0)) for seq in range(3)] == [True, True, False]
    assert hand_over.put(heard(9))
    hand_over.check_integrity()
    assert [item for item in hand_over.take(0, 10) if isinstance(item, Dropped)] == []
