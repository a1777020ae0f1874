"""Puts the messages of one incarnation in order: what is next, what waits behind a hole, what is a duplicate.

Pure: no socket, no thread, and time only as a number handed in. It decides nothing about replay or state; whoever owns
it asks `take` for what is ready, `hole` for what is missing, and `give_up` when waiting has lasted long enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvxray_engine.stream.codec import Message

MAX_HOLD_NS: Final = 2_000_000_000
MAX_HOLD_BYTES: Final = 64 << 20
TAIL_GRACE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Hole:
    """Missing messages, both ends included. `is_tail`: nothing after them has come; only a heartbeat told of them."""

    wire_seq0: int
    wire_seq1: int
    since_ns: int
    is_tail: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """A hole given up. `seq1` is None when no later message has told where the missing events end."""

    wire_seq0: int
    wire_seq1: int
    seq0: int
    seq1: int | None


class Sequencer:
    """Invariants: held messages all lie at or after `next_wire_seq`; after `take` none lies at it; `held_bytes` is
    their sum.
    """

    def __init__(self, next_wire_seq: int, next_seq: int) -> None:
        """next_wire_seq, next_seq: the first message wanted and the number of its first event."""
        self.next_wire_seq = next_wire_seq
        self.next_seq = next_seq
        self.duplicates = 0
        self.held_bytes = 0
        self._held: dict[int, tuple[Message, int]] = {}
        self._last_heard = next_wire_seq - 1
        self._hole_since_ns: int | None = None

    def offer(self, message: Message, num_bytes: int, now_ns: int) -> None:
        """One message, in any order. Late ones and duplicates are counted and dropped."""
        wire_seq = message.header.wire_seq
        if wire_seq < self.next_wire_seq or wire_seq in self._held:
            self.duplicates += 1
            return
        self._held[wire_seq] = (message, num_bytes)
        self.held_bytes += num_bytes
        self._last_heard = max(self._last_heard, wire_seq)
        self._note_hole(now_ns)

    def hear(self, last_wire_seq: int, now_ns: int) -> None:
        """A heartbeat: messages up to `last_wire_seq` exist."""
        self._last_heard = max(self._last_heard, last_wire_seq)
        self._note_hole(now_ns)

    def take(self, now_ns: int) -> list[Message]:
        """The messages that are next, in order, without a hole between them."""
        ready: list[Message] = []
        while self.next_wire_seq in self._held:
            message, num_bytes = self._held.pop(self.next_wire_seq)
            self.held_bytes -= num_bytes
            self.next_wire_seq += 1
            self.next_seq = message.header.seq0 + message.header.n
            ready.append(message)
        if ready:
            self._hole_since_ns = None
            self._note_hole(now_ns)
        return ready

    def hole(self) -> Hole | None:
        """The first missing messages, None when nothing is known to be missing."""
        if self._hole_since_ns is None:
            return None
        first_held = min(self._held, default=None)
        last = self._last_heard if first_held is None else first_held - 1
        return Hole(self.next_wire_seq, last, self._hole_since_ns, first_held is None)

    def is_overdue(self, now_ns: int, *, replay_answered: bool) -> bool:
        """Whether the first hole has been waited for long enough.

        replay_answered: there is no replay, or it has said that it no longer has these messages. What only a heartbeat
        told of may still be on its way from the engine, and gets a moment.
        """
        hole = self.hole()
        if hole is None:
            return False
        waited = now_ns - hole.since_ns
        if waited >= MAX_HOLD_NS or self.held_bytes > MAX_HOLD_BYTES:
            return True
        return replay_answered and (not hole.is_tail or waited >= TAIL_GRACE_NS)

    def give_up(self, now_ns: int) -> Gap:
        """Goes on behind the first hole, which must exist."""
        hole = self.hole()
        assert hole is not None, "there is no hole to give up"
        seq1 = None
        if not hole.is_tail:
            seq1 = self._held[hole.wire_seq1 + 1][0].header.seq0 - 1
        gap = Gap(hole.wire_seq0, hole.wire_seq1, self.next_seq, seq1)
        self.next_wire_seq = hole.wire_seq1 + 1
        if seq1 is not None:
            self.next_seq = seq1 + 1
        self._hole_since_ns = None
        self._note_hole(now_ns)
        return gap

    def check_integrity(self) -> None:
        """Asserts the invariants."""
        assert all(wire_seq >= self.next_wire_seq for wire_seq in self._held), "a message is held that was passed"
        assert self.held_bytes == sum(size for _, size in self._held.values()), "held bytes are miscounted"
        hole = self.hole()
        assert hole is None or hole.wire_seq0 <= hole.wire_seq1, "a hole is empty"
        missing = self.next_wire_seq <= self._last_heard and self.next_wire_seq not in self._held
        assert missing == (hole is not None), "a hole is not seen"

    def _note_hole(self, now_ns: int) -> None:
        missing = self.next_wire_seq <= self._last_heard and self.next_wire_seq not in self._held
        if not missing:
            self._hole_since_ns = None
        elif self._hole_since_ns is None:
            self._hole_since_ns = now_ns
