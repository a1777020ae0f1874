"""One epoch of one source on its way into the event log: messages in order, gaps where they are missing, snapshots as
keyframes.

The log's queue is bounded: what it refuses becomes a gap of the stored history, while the live state goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import Cursor, EpochKey

from kvxray_backend.sources.sequencer import Gap

LOST_ON_THE_WAY: Final = "the messages never arrived"
CANNOT_BE_FOLDED: Final = "the message contradicts what the source is"
QUEUE_FULL: Final = "the event log could not keep up"
BEFORE_JOINING: Final = "kvxray was not following, and replay no longer had them"


MAX_MISSING: Final = 1000


@dataclass(slots=True, eq=False)
class _Missing:
    """A gap and the messages of it that came after all."""

    gap: Gap
    num_messages: int
    filled: set[int] = field(default_factory=set)


class EpochHistory:
    """Writes one epoch. Invariant: messages are appended in the order of their numbers."""

    def __init__(self, log: EventLog, clock: Clock, key: EpochKey, cursor: Cursor | None, known_gaps: int) -> None:
        """cursor: how far the epoch was stored before, None for a new one. known_gaps: in what was stored."""
        self._log = log
        self._clock = clock
        self.key = key
        self.cursor = cursor
        self.known_gaps = known_gaps
        self._missing: deque[_Missing] = deque(maxlen=MAX_MISSING)

    @property
    def epoch(self) -> int:
        return self.key.epoch

    def append(self, messages: Sequence[Message]) -> None:
        """Messages in order; a refused one is recorded as missing."""
        for message in messages:
            if not self._log.append(self.key, message):
                header = message.header
                lost = Gap(header.wire_seq, header.wire_seq, header.seq0, header.seq0 + header.n - 1)
                self.gap(lost, QUEUE_FULL)

    def gap(self, gap: Gap, reason: str) -> None:
        """These messages are missing."""
        self._log.gap(self.key, gap.wire_seq0, gap.wire_seq1, gap.seq0, gap.seq1, self._clock.wall_ns(), reason)
        self._missing.append(_Missing(gap, gap.wire_seq1 - gap.wire_seq0 + 1))

    def fill(self, message: Message) -> None:
        """A message that came too late for the live state: history takes it if it is missing there."""
        wire_seq = message.header.wire_seq
        for missing in self._missing:
            gap = missing.gap
            if gap.wire_seq0 <= wire_seq <= gap.wire_seq1 and wire_seq not in missing.filled:
                if self._log.append(self.key, message):
                    missing.filled.add(wire_seq)
                if len(missing.filled) == missing.num_messages:
                    self._missing.remove(missing)
                    self._log.repair_gap(self.key, gap.wire_seq0, gap.wire_seq1, self._clock.wall_ns())
                return

    def keyframe(self, block_map: BlockMap) -> None:
        """The whole state, as it is before the next message; a refused one is no loss, the next snapshot brings
        another.
        """
        state = snapshot.dump(block_map)
        self._log.keyframe(self.key, block_map.next_seq, block_map.next_wire_seq, block_map.t_ns, state)
