"""An answer that lies there already is never given up, however long we were busy; one that never comes is."""

from __future__ import annotations

from typing import cast

from kvxray_backend.sources.foreign.batch_steps import Apply, JoinedMidstream
from kvxray_backend.sources.foreign.hand_over import Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.listening_clock import MAX_BUSY_NS, ListeningClock
from kvxray_backend.sources.foreign.ordered_stream import OrderedStream
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

SECOND = 1_000_000_000
ENGINE = Publisher(0, b"")


class Listening:
    """What has come by each look, and the time that passes."""

    def __init__(self) -> None:
        self.mono_ns = 0
        self.has_come: list[Item] = []
        self.asked: list[int] = []

    def take(self, timeout_s: float) -> list[Item]:
        taken, self.has_come = self.has_come, []
        if not taken:
            self.mono_ns += round(timeout_s * SECOND)
        return taken

    def can_ask(self, publisher: Publisher) -> bool:
        return True

    def ask_replay(self, publisher: Publisher, start: int) -> None:
        self.asked.append(start)

    @property
    def askable_lines(self) -> list[int]:
        return [0]


def heard(seq: int, replay_start: int | None = None) -> Heard:
    return Heard(ENGINE, seq, b"%d" % seq, 0, replay_start)


def ordered(listening: Listening) -> OrderedStream:
    def decode(payload: bytes) -> Batch:
        return Batch(float(payload), None, (), digest=payload.rjust(16))

    return OrderedStream(cast(ZmqStream, listening), decode, ReplayTurns(), mono_ns=lambda: listening.mono_ns)


def test_an_answer_that_came_while_we_were_busy_fills_the_hole() -> None:
    listening = Listening()
    stream = ordered(listening)
    listening.has_come = [heard(10)]
    assert stream.next_steps(0.1) == []
    assert listening.asked == [0]
    listening.mono_ns += 30 * SECOND
    listening.has_come = [heard(11), *(heard(seq, 0) for seq in range(10)), ReplayEnded(ENGINE, 0, 0)]
    steps = [step for _, step in stream.next_steps(0.1)]
    assert [step.seq for step in steps if isinstance(step, Apply)] == list(range(12))
    assert len(steps) == 12


def test_an_answer_that_never_comes_is_given_up_after_two_seconds_of_listening() -> None:
    listening = Listening()
    stream = ordered(listening)
    listening.has_come = [heard(10)]
    steps, looks = stream.next_steps(0.1), 1
    while not steps:
        steps, looks = stream.next_steps(0.1), looks + 1
    assert [type(step) for _, step in steps] == [JoinedMidstream, Apply]
    assert looks == 21


def test_who_is_always_busy_gives_up_too() -> None:
    listening = Listening()
    stream = ordered(listening)
    listening.has_come = [heard(10)]
    steps, looks = stream.next_steps(0.1), 1
    while not steps:
        listening.mono_ns += SECOND
        listening.has_come = [heard(10 + looks)]
        steps, looks = stream.next_steps(0.1), looks + 1
    assert isinstance(steps[0][1], JoinedMidstream)
    assert looks == 2 * SECOND // MAX_BUSY_NS + 1


def test_time_never_stands_still_and_goes_no_faster_than_the_clock() -> None:
    now_ns = [0]
    clock = ListeningClock(lambda: now_ns[0])
    for busy_ns, waited_ns in ((0, 0), (10, 0), (5 * SECOND, 3), (0, SECOND)):
        before = clock.now_ns
        now_ns[0] += busy_ns
        clock.look()
        now_ns[0] += waited_ns
        clock.looked()
        assert clock.now_ns - before == min(busy_ns, MAX_BUSY_NS) + waited_ns
