"""Asks each publisher for all it has as soon as it is followed: one that is idle would tell nothing for hours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvxray_backend.sources.foreign.hand_over import Publisher, ReplayEnded
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.zmq_line import UNANSWERED_NS
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

# Longer than the line itself waits, so that its answer is never taken for that of a later request.
GIVEN_UP_NS: Final = 2 * UNANSWERED_NS


class FirstAsks:
    """Each line is asked once, when there is a turn. Invariant: for each request under way one turn is taken."""

    def __init__(self, stream: ZmqStream, turns: ReplayTurns, lines: Iterable[int]) -> None:
        self._stream = stream
        self._turns = turns
        self._waiting = list(lines)
        self._under_way: dict[Publisher, int] = {}

    def advance(self, now_ns: int) -> None:
        """Asks whom there is a turn for; gives up on whom does not answer."""
        while self._waiting and self._turns.take():
            publisher = Publisher(self._waiting.pop(0), b"")
            self._under_way[publisher] = now_ns
            self._stream.ask_replay(publisher, 0)
        for publisher, since_ns in [*self._under_way.items()]:
            if now_ns - since_ns >= GIVEN_UP_NS:
                self._end(publisher)

    def ended(self, answer: ReplayEnded) -> None:
        """An answer is complete, perhaps one of these."""
        if answer.start == 0 and answer.publisher in self._under_way:
            self._end(answer.publisher)

    def close(self) -> None:
        for publisher in [*self._under_way]:
            self._end(publisher)
        self._waiting.clear()

    def _end(self, publisher: Publisher) -> None:
        del self._under_way[publisher]
        self._turns.give_back()
