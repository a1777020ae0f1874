"""The writer's own fold of one epoch: what periodic keyframes and rollups are made from. Pure: no database, no clock.

It takes what is stored, chunk by chunk in the order of the events, and says where messages are missing. Begun from any
keyframe with that keyframe's open rollups it goes on exactly as if it had folded all that came before: whatever it made
is made the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage.chunk_seconds import by_second
from kvxray_storage.folded_pool import FoldedPool
from kvxray_storage.folded_residency import FoldedResidency
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.rollup_book import RollupBook
from kvxray_storage.state_kinds import EitherState, begin_state

KEYFRAME_ROWS: Final = 131_072


class EpochFold:
    """`rows`: events since the last keyframe of any origin."""

    def __init__(self, key: EpochKey, state: EitherState, book: RollupBook) -> None:
        self.key = key
        self.book = book
        self.rows = 0
        self._folded = _folded(state)

    @staticmethod
    def without_keyframe(
        key: EpochKey, descriptor: Descriptor, wire_seq: int, seq: int, t_ns: int, book: RollupBook
    ) -> EpochFold:
        """From the first message that is stored: when it is the engine's first, all is empty, else unknown."""
        state = begin_state(descriptor, known=wire_seq == 0 and seq == 0)
        state.next_wire_seq, state.next_seq, state.t_ns = wire_seq, seq, t_ns
        return EpochFold(key, state, book)

    @property
    def state(self) -> EitherState:
        return self._folded.state

    @property
    def next_wire_seq(self) -> int:
        return self.state.next_wire_seq

    @property
    def next_seq(self) -> int:
        return self.state.next_seq

    @property
    def is_due(self) -> bool:
        """Whether a keyframe is to be written here."""
        return self.rows >= max(KEYFRAME_ROWS, self._folded.least_interval)

    def fold(self, wire_seq0: int, message: Message) -> None:
        """A chunk that begins with message `wire_seq0` and does not lie before what was folded."""
        state = self.state
        assert wire_seq0 >= state.next_wire_seq, "a late chunk cannot be folded on top of what came after it"
        if wire_seq0 > state.next_wire_seq:
            self._lose_track()
        for part in self._parts(self._folded.taken(message)):
            self._fold_part(part)
        state.next_seq = message.end_seq
        self.rows += message.header.n

    def skip_to(self, wire_seq: int, seq: int, *, lost: bool) -> None:
        """Messages before these numbers hold nothing more, or cannot be read: then what they changed is unknown."""
        if lost:
            self._lose_track()
        self.state.next_wire_seq, self.state.next_seq = wire_seq, seq

    def keyframe(self) -> Keyframe:
        """The state as it is now; the next one is due an interval later."""
        return self.draft()()

    def draft(self) -> Callable[[], Keyframe]:
        """The same, of which any thread can make the keyframe."""
        state = self.state
        drawn = self._folded.draw()
        self._restart_sums()
        fields: dict[str, Any] = {
            "key": self.key, "seq": state.next_seq, "wire_seq": state.next_wire_seq, "t_ns": state.t_ns,
            "kind": self._folded.kind, "names": {}, "origin": "periodic", "rollup": self.book.encode(),
        }  # fmt: skip
        return lambda: Keyframe(state=drawn(), **fields)

    def adopt(self, wire_seq: int, seq: int, state: EitherState) -> bytes:
        """Goes on from what the engine says itself; returns the open rollups there, which belong to its keyframe."""
        if wire_seq > self.next_wire_seq or not self._folded.is_whole:
            # Tokens may lie in what is missing.
            self.book.since_ns = max(self.book.since_ns, self.state.t_ns)
        state.next_wire_seq, state.next_seq = wire_seq, seq
        self._folded = _folded(state)
        self._restart_sums()
        return self.book.encode()

    def check_integrity(self) -> None:
        self.book.check_integrity()
        self._folded.check_integrity()

    def _restart_sums(self) -> None:
        self.rows = 0
        self._folded.restart()

    def _parts(self, message: Message) -> list[Message]:
        """By second; a message that cannot be folded is not half folded."""
        parts = by_second(message)
        try:
            if len(parts) > 1:
                self._folded.check(message)
        except BadMessage:
            return [message]
        return parts

    def _fold_part(self, message: Message) -> None:
        try:
            self._folded.fold(message, self.book)
        except BadMessage:
            self.skip_to(message.header.wire_seq + 1, message.end_seq, lost=True)
        self._folded.count(message, self.book)

    def _lose_track(self) -> None:
        self._folded.lose_track()
        self.book.since_ns = max(self.book.since_ns, self.state.t_ns)


def _folded(state: EitherState) -> FoldedPool | FoldedResidency:
    return FoldedPool(state) if isinstance(state, BlockMap) else FoldedResidency(state)
