"""Batches of one turn that wait to be folded together: a fold of thirty costs little more than a fold of one.

Whoever reads the fold, or tells it something that has its place among the batches, has them folded first.
"""

from __future__ import annotations

import dataclasses
from itertools import accumulate
from typing import Final

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.joining import can_be_timed_from, can_join, join
from kvxray_engine.stream.residency_faults import ResidencyFault
from kvxray_engine.stream.residency_map import ResidencyMap

MAX_EVENTS: Final = 4_096
"""Of those that wait; beyond that more at once brings nothing."""


class FoldedTogether:
    """Messages in order, none of them folded yet. Invariant: all of them can be joined."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._num_events = 0

    def __len__(self) -> int:
        return len(self._messages)

    def has_room(self, message: Message) -> bool:
        """Whether it may be folded together with those that wait; else these must go first."""
        waiting = self._messages
        return not waiting or (
            self._num_events + message.header.n <= MAX_EVENTS
            and can_join(waiting[0], waiting[-1], message)
            and can_be_timed_from(waiting[0], message)
        )

    def add(self, message: Message) -> None:
        assert self.has_room(message), "those that wait must be folded first"
        self._messages.append(message)
        self._num_events += message.header.n

    def fold_into(self, fold: ResidencyMap) -> list[ResidencyFault]:
        """Nothing waits after it. The faults are of the batches in which they happened."""
        messages, self._messages, self._num_events = self._messages, [], 0
        if not messages:
            return []
        fold.apply(join(messages))
        faults = fold.take_faults()
        return [_placed(fault, messages) for fault in faults] if len(messages) > 1 else faults


def _placed(fault: ResidencyFault, messages: list[Message]) -> ResidencyFault:
    """Within what was joined events are counted on from the first one's number; each batch has numbers of its own."""
    index = fault.seq - messages[0].header.seq0
    before = 0
    for message, end in zip(messages, accumulate(one.header.n for one in messages), strict=True):
        if index < end:
            return dataclasses.replace(fault, seq=message.header.seq0 + index - before)
        before = end
    raise AssertionError("a fault lies within what was folded")
