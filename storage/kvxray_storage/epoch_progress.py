"""What the log knows of one epoch while it is written: which messages were taken, and how far the commits are.

The writer's counts are absolute, so that a commit whose answer was lost can be repeated without counting twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from kvxray_storage.chunk_builder import ClosedChunk
from kvxray_storage.records import Cursor, EpochKey, Gap
from kvxray_storage.wire_ranges import WireRanges


class Arrival(Enum):
    """How a message number stands to those taken before."""

    next = "next"
    late = "late"
    duplicate = "duplicate"


@dataclass(slots=True)
class Admission:
    """Numbers handed in so far. `missing`: those below `next_wire_seq` that never came; one that comes later is late.

    Only the thread that appends changes it.
    """

    next_wire_seq: int | None = None
    missing: WireRanges = field(default_factory=WireRanges)

    def judge(self, wire_seq: int) -> Arrival:
        """Changes nothing, so that a message the queue refuses can be offered again."""
        if self.next_wire_seq is None or wire_seq >= self.next_wire_seq:
            return Arrival.next
        return Arrival.late if wire_seq in self.missing else Arrival.duplicate

    def take(self, wire_seq: int) -> None:
        if self.next_wire_seq is not None and wire_seq < self.next_wire_seq:
            self.missing.remove(wire_seq, wire_seq)
        else:
            self.skip_to(wire_seq)
            self.next_wire_seq = wire_seq + 1

    def skip_to(self, wire_seq: int) -> None:
        """Everything from the next number up to `wire_seq` (not included) is missing."""
        if self.next_wire_seq is not None:
            self.missing.add(self.next_wire_seq, wire_seq - 1)

    def miss(self, wire_seq0: int, wire_seq1: int) -> None:
        """A gap was told. What of it lies below `next_wire_seq` is known already: missing, or stored."""
        first = wire_seq0 if self.next_wire_seq is None else max(wire_seq0, self.next_wire_seq)
        self.missing.add(first, wire_seq1)
        self.next_wire_seq = max(wire_seq1 + 1, self.next_wire_seq or 0)

    def check_integrity(self) -> None:
        self.missing.check_integrity()
        beyond = [last for _, last in self.missing if self.next_wire_seq is None or last >= self.next_wire_seq]
        assert not beyond, f"messages up to {beyond[0]} are missing, but none so late was expected"


@dataclass(frozen=True, slots=True)
class Progress:
    """What the epoch's and the cursor's rows say. None: nothing yet."""

    key: EpochKey
    next_wire_seq: int | None = None
    next_seq: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    last_ns: int | None = None
    num_events: int = 0
    num_chunks: int = 0

    @property
    def cursor(self) -> Cursor | None:
        if self.next_wire_seq is None or self.next_seq is None:
            return None
        return Cursor(self.next_wire_seq, self.next_seq)

    def with_chunk(self, chunk: ClosedChunk) -> Progress:
        moved = self._moved(chunk.wire_seq1 + 1, chunk.seq1 + 1)
        moved = replace(moved, num_chunks=self.num_chunks + 1)
        if not chunk.num_events:
            return moved
        return replace(
            moved,
            first_seq=chunk.seq0 if self.first_seq is None else min(self.first_seq, chunk.seq0),
            last_seq=chunk.seq1 if self.last_seq is None else max(self.last_seq, chunk.seq1),
            last_ns=chunk.t1_ns if self.last_ns is None else max(self.last_ns, chunk.t1_ns),
            num_events=self.num_events + chunk.num_events,
        )

    def with_gap(self, gap: Gap) -> Progress:
        return self._moved(gap.wire_seq1 + 1, gap.seq0 if gap.seq1 is None else gap.seq1 + 1)

    def _moved(self, next_wire_seq: int, next_seq: int) -> Progress:
        """The cursor never goes back: late messages lie below it."""
        return replace(
            self,
            next_wire_seq=max(next_wire_seq, self.next_wire_seq or 0),
            next_seq=max(next_seq, self.next_seq or 0),
        )
