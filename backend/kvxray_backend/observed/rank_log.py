"""One source on its way into the event log: epochs, messages and what is missing, in order, and never in the way.

What is to be stored waits here until the engine's lock is free again, since opening an epoch may take a moment. A
database that cannot be asked is asked again a little later; what does not fit until then becomes a gap of the history,
and what is live goes on.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_storage.database import OPENING_ERRORS
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey
from kvxray_storage.write_queue import message_bytes

from kvxray_backend.sources.foreign.stream_records import (
    EpochBegan,
    Kept,
    Mended,
    Missing,
    StateBefore,
    StreamRecord,
)

QUEUE_FULL: Final = "the event log could not keep up"
MAX_WAITING_BYTES: Final = 16 << 20
MAX_GAPS: Final = 1_000
ASK_AGAIN_S: Final = 1.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenGap:
    """`left`: how many of its batches are still missing."""

    first: int
    last: int
    left: int


class RankLog:
    """`num_lost`: messages that were not stored as there was no room. `put` under the engine's lock, `flush` outside;
    both in the thread that follows the engine. Invariant: `num_bytes` is the sum over the messages that wait.
    """

    def __init__(
        self,
        log: EventLog,
        clock: Clock,
        source: str,
        labels: Mapping[str, str],
        begin: Callable[[], object] | None = None,
    ) -> None:
        """begin: done once, before anything is stored and as soon as the database can be asked."""
        self.num_lost = 0
        self.num_bytes = 0
        self.key: EpochKey | None = None
        self._log = log
        self._clock = clock
        self._source = source
        self._labels = labels
        self._waiting: deque[StreamRecord] = deque()
        self._gaps: list[_OpenGap] = []
        self._not_mended: int | None = None
        self._retry_at_s = 0.0
        self._begin = begin

    def put(self, record: StreamRecord) -> None:
        if isinstance(record, Kept):
            if self.num_bytes > MAX_WAITING_BYTES:
                self._put_lost(record.message.header.wire_seq)
                return
            self.num_bytes += message_bytes(record.message)
        self._waiting.append(record)

    def flush(self) -> None:
        """Hands on what waits, unless the database cannot be asked just now."""
        if not self._waiting or time.monotonic() < self._retry_at_s:
            return
        try:
            if self._begin is not None:
                self._begin()
                self._begin = None
            while self._waiting:
                self._store(self._waiting[0])
                done = self._waiting.popleft()
                if isinstance(done, Kept):
                    self.num_bytes -= message_bytes(done.message)
        except OPENING_ERRORS as error:
            self._retry_at_s = time.monotonic() + ASK_AGAIN_S
            logger.warning("The history of %s waits: %s", self._source, error)

    def _put_lost(self, wire_seq: int) -> None:
        """In a row they are one gap: a database may be away for long."""
        self.num_lost += 1
        before = self._waiting[-1]
        first = wire_seq
        if isinstance(before, Missing) and before.reason == QUEUE_FULL and before.last + 1 == wire_seq:
            first = before.first
            self._waiting.pop()
        self._waiting.append(Missing(first, wire_seq, QUEUE_FULL))

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        waiting = [one.message for one in self._waiting if isinstance(one, Kept)]
        assert self.num_bytes == sum(map(message_bytes, waiting)), "what waits is miscounted"

    def _store(self, record: StreamRecord) -> None:
        match record:
            case EpochBegan(_, incarnation, descriptor):
                self.key = self._log.open_epoch(
                    self._source, self._labels, incarnation, descriptor, self._clock.wall_ns()
                )
                self._gaps.clear()
            case StateBefore(state, names, seq, wire_seq, t_ns):
                self._log.keyframe(self._epoch, seq, wire_seq, t_ns, state, kind="residency", names=names)
            case Kept(message, is_late):
                self._append(message, is_late=is_late)
            case Missing(first_seq, last_seq, reason):
                self._miss(first_seq, last_seq, reason)
            case Mended(first_seq, last_seq):
                self._mend(first_seq, last_seq)

    @property
    def _epoch(self) -> EpochKey:
        assert self.key is not None, "an epoch begins before anything of it is told"
        return self.key

    def _append(self, message: Message, *, is_late: bool) -> None:
        if self._log.append(self._epoch, message):
            return
        self.num_lost += 1
        wire_seq = message.header.wire_seq
        if is_late:
            self._not_mended = wire_seq  # it lies in a gap, and stays missing
        else:
            self._miss(wire_seq, wire_seq, QUEUE_FULL)

    def _miss(self, first: int, last: int, reason: str) -> None:
        seq0, seq1 = first * EVENTS_OF_BATCH, (last + 1) * EVENTS_OF_BATCH - 1
        self._log.gap(self._epoch, first, last, seq0, seq1, self._clock.wall_ns(), reason)
        self._gaps.append(_OpenGap(first, last, last - first + 1))
        del self._gaps[:-MAX_GAPS]

    def _mend(self, first: int, last: int) -> None:
        """A gap is mended when all of its batches came after all."""
        if first == self._not_mended:
            return
        for gap in self._gaps:
            gap.left -= max(0, min(last, gap.last) - max(first, gap.first) + 1)
            if gap.left == 0:
                self._log.repair_gap(self._epoch, gap.first, gap.last, self._clock.wall_ns())
        self._gaps = [gap for gap in self._gaps if gap.left > 0]
