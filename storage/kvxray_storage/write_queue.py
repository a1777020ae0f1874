"""What waits to be committed, bounded in bytes. Plain counting and order: its owner brings the lock.

Messages and keyframes share `max_bytes`. A gap is never refused, or a loss would go untold: gaps that follow each other
become one, so that their number is bounded by that of the messages taken between them. Other records have a small
reserve of their own; findings replace each other by id and are bounded by number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import COLUMN_TYPES

from kvxray_storage.records import EpochKey, FindingRow, Gap, Keyframe, OpenedEpoch, Repair

RECORD_BYTES: Final = 512
RECORD_RESERVE_BYTES: Final = 1 << 20
MAX_FINDINGS: Final = 4096
_LONGEST_RUN: Final = 256
_MESSAGE_BYTES: Final = 1024
_NAME_BYTES: Final = 512
_OPERATION_BYTES: Final = sum(np.dtype(dtype).itemsize for name, dtype in COLUMN_TYPES if name not in ("blk", "val"))


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """A message on its way into a chunk. `at`: monotonic seconds when it was taken."""

    key: EpochKey
    message: Message
    at: float


Entry = Arrived | Keyframe | OpenedEpoch | Gap | Repair


@dataclass(slots=True, eq=False)
class _Waiting:
    entry: Entry
    num_bytes: int


def message_bytes(message: Message) -> int:
    """What a message takes of memory while it waits: its columns, its hashes, and a round sum for the rest."""
    columns = message.columns
    rows = columns.blk.nbytes + columns.val.nbytes + len(columns.hashes)
    names = _NAME_BYTES * len(message.header.names)
    return _OPERATION_BYTES * columns.num_operations + rows + names + _MESSAGE_BYTES


class WriteQueue:
    """Entries in order, findings apart.

    `num_bytes` and `record_bytes` count what was taken out too, until it is given back. `first_at`: monotonic seconds
    since when something waits, None when nothing does. `num_events`: of the messages that wait.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.record_bytes = 0
        self.num_events = 0
        self.first_at: float | None = None
        self._entries: deque[_Waiting] = deque()
        self._newest: dict[EpochKey, _Waiting] = {}
        self._findings: dict[str, FindingRow] = {}

    def __len__(self) -> int:
        return len(self._entries) + len(self._findings)

    def offer(self, entry: Arrived | Keyframe, num_bytes: int, now: float) -> bool:
        """False when it does not fit."""
        if self.num_bytes + num_bytes > self.max_bytes:
            return False
        self.num_bytes += num_bytes
        if isinstance(entry, Arrived):
            self.num_events += entry.message.header.n
        self._append(entry, num_bytes, now)
        return True

    def offer_record(self, record: OpenedEpoch | Gap | Repair, now: float) -> bool:
        """False when the reserve is used up; an epoch, which all else refers to, and a gap are never refused."""
        is_full = self.record_bytes + RECORD_BYTES > RECORD_RESERVE_BYTES
        if isinstance(record, Gap):
            if self._extends_newest(record, any_reason=is_full):
                return True
        elif is_full and isinstance(record, Repair):
            return False
        self.record_bytes += RECORD_BYTES
        self._append(record, RECORD_BYTES, now)
        return True

    def offer_finding(self, finding: FindingRow, now: float) -> bool:
        """False when too many different ones wait."""
        if finding.id not in self._findings and len(self._findings) >= MAX_FINDINGS:
            return False
        self._findings[finding.id] = finding
        self.first_at = now if self.first_at is None else self.first_at
        return True

    def take(self) -> tuple[Entry, int] | None:
        """The oldest entry and its size; None when there is none, and then nothing is waited for any more."""
        if not self._entries:
            self.first_at = None
            return None
        taken = self._entries.popleft()
        if self._newest[taken.entry.key] is taken:
            del self._newest[taken.entry.key]
        if isinstance(taken.entry, Arrived):
            self.num_events -= taken.entry.message.header.n
        return taken.entry, taken.num_bytes

    def take_run(self, num_events: int) -> list[tuple[Entry, int]]:
        """The oldest entries: messages with about so many events, or up to the first entry that is none. Empty like
        `take`'s None.
        """
        run: list[tuple[Entry, int]] = []
        while num_events > 0 and len(run) < _LONGEST_RUN and (taken := self.take()) is not None:
            run.append(taken)
            if not isinstance(taken[0], Arrived):
                break
            num_events -= taken[0].message.header.n
        return run

    def take_findings(self) -> list[FindingRow]:
        """All that wait; taken together with the last entry."""
        taken, self._findings = list(self._findings.values()), {}
        return taken

    def give_back(self, num_bytes: int, record_bytes: int) -> None:
        """What was taken out is committed, or given up."""
        self.num_bytes -= num_bytes
        self.record_bytes -= record_bytes

    def _append(self, entry: Entry, num_bytes: int, now: float) -> None:
        waiting = _Waiting(entry, num_bytes)
        self._entries.append(waiting)
        self._newest[entry.key] = waiting
        self.first_at = now if self.first_at is None else self.first_at

    def _extends_newest(self, gap: Gap, *, any_reason: bool) -> bool:
        """Makes the gap part of the one that its epoch's newest entry is, if it goes on where that ends."""
        newest = self._newest.get(gap.key)
        if newest is None or not isinstance(newest.entry, Gap) or newest.entry.wire_seq1 + 1 != gap.wire_seq0:
            return False
        if newest.entry.reason != gap.reason and not any_reason:
            return False
        newest.entry = replace(newest.entry, wire_seq1=gap.wire_seq1, seq1=gap.seq1)
        return True

    def waiting_bytes(self) -> int:
        """Of what was not taken out yet."""
        return sum(one.num_bytes for one in self._entries if isinstance(one.entry, Arrived | Keyframe))

    def check_integrity(self, taken_bytes: int) -> None:
        """taken_bytes: what was taken out and not given back."""
        assert self.num_bytes == self.waiting_bytes() + taken_bytes, "the queue's bytes do not add up"
        assert 0 <= self.num_bytes <= self.max_bytes, "the queue is larger than it may be"
        assert self.record_bytes >= 0, "more records were given back than taken"
