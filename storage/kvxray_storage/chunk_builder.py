"""Cuts the messages of one epoch into chunks: pure but for the monotonic time that its caller gives.

A chunk ends when it has `chunk_events` events (or as many as its caller lets it grow to) or has been open for
`chunk_seconds`, and where its successor could not be told under the same header: a hole in wire_seq, seq or ordinals,
another hash width, a changed descriptor (a message of its own, hence a chunk of its own), an hour of the stream's time,
a clock that went back. The caller cuts at keyframes and gaps.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import distinct
from kvxray_engine.stream.event_times import operation_times
from kvxray_engine.stream.joining import can_be_timed_from, can_join
from kvxray_engine.stream.schema import MAX_ORDINAL, Header, Name
from numpy.typing import NDArray

from kvxray_storage.block_filter import encode_filter, touched_blocks
from kvxray_storage.chunk import draft
from kvxray_storage.hash_filter import encode_hash_filter
from kvxray_storage.kind_counts import encode_counts
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedChunk:
    """A chunk ready to be stored, with what the database indexes of it. Ranges include both ends.

    `names` are those first told in it, from ordinal `req0` on; `holders` the ordinals that its events name.
    `descriptor`: the source's new one, where this chunk changes it. `queue_bytes`: what its messages take of the queue.
    `message`: its events as they will be read back.
    """

    key: EpochKey
    wire_seq0: int
    wire_seq1: int
    seq0: int
    seq1: int
    num_events: int
    req0: int
    names: tuple[Name, ...]
    holders: NDArray[np.uint32]
    hash0: int
    num_hash: int
    t0_ns: int
    t1_ns: int
    counts: bytes
    bits: bytes
    hash_bits: bytes
    packed: Future[bytes]
    descriptor: bytes
    queue_bytes: int
    message: Message

    @property
    def data(self) -> bytes:
        """What is stored of it; waits until it is packed."""
        return self.packed.result()

    @property
    def num_bytes(self) -> int:
        """Of what is stored of it."""
        return len(self.counts) + len(self.bits) + len(self.hash_bits) + len(self.data)


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """Messages of which no chunk could be made. `queue_bytes`: what they take of the queue."""

    first: Header
    last: Header
    queue_bytes: int


class ChunkBuilder:
    """Messages of one epoch on their way into a chunk. `opened_at`: monotonic seconds of the first, None without.

    Of messages that cannot be packed together its owner takes what is to be told as missing.
    """

    def __init__(self, key: EpochKey, chunk_events: int, chunk_seconds: float, packer: Packer) -> None:
        self.key = key
        self._packer = packer
        self.opened_at: float | None = None
        self._unbuilt: list[Unbuilt] = []
        self._chunk_events = chunk_events
        self._chunk_seconds = chunk_seconds
        self._messages: list[Message] = []
        self._events = 0
        self._queue_bytes = 0

    @property
    def queue_bytes(self) -> int:
        """What the messages held here take of the queue."""
        return self._queue_bytes

    @property
    def num_events(self) -> int:
        """Of the messages held here."""
        return self._events

    @property
    def due_at(self) -> float | None:
        """Monotonic seconds when the open chunk must be cut; None without one."""
        return None if self.opened_at is None else self.opened_at + self._chunk_seconds

    @property
    def is_full(self) -> bool:
        """Open only because more was to follow at once."""
        return self._events >= self._chunk_events

    def add(self, message: Message, queue_bytes: int, now: float, max_events: int = 0) -> list[ClosedChunk]:
        """Takes a message; returns the chunks that this closed: none, the one before it, and perhaps its own.

        max_events: what the chunk may grow to, if that is more than `chunk_events`.
        """
        closed = []
        if self._messages and not self._may_follow(message):
            closed.append(self.cut())
        if self.opened_at is None:
            self.opened_at = now
        self._messages.append(message)
        self._events += message.header.n
        self._queue_bytes += queue_bytes
        if self._events >= max(self._chunk_events, max_events) or message.header.type == "descriptor":
            closed.append(self.cut())
        return [chunk for chunk in closed if chunk is not None]

    def cut(self) -> ClosedChunk | None:
        """Closes what is open; None when nothing is, or none can be made of it."""
        if not self._messages:
            return None
        messages, queue_bytes = self._messages, self._queue_bytes
        self._messages, self._events, self._queue_bytes, self.opened_at = [], 0, 0, None
        try:
            return _close(self.key, messages, queue_bytes, self._packer)
        except Exception:
            logger.exception("No chunk can be made of messages of epoch %s, which are set aside.", self.key)
            self._unbuilt.append(Unbuilt(messages[0].header, messages[-1].header, queue_bytes))
            return None

    def take_unbuilt(self) -> list[Unbuilt]:
        """What no chunk could be made of since it was last asked."""
        taken, self._unbuilt = self._unbuilt, []
        return taken

    def check_integrity(self) -> None:
        assert (self.opened_at is None) == (not self._messages), "a chunk is open exactly while it holds messages"
        assert self._events == sum(message.header.n for message in self._messages), "events were counted wrongly"

    def _may_follow(self, message: Message) -> bool:
        first, last = self._messages[0], self._messages[-1]
        return can_join(first, last, message) and can_be_timed_from(first, message)


def _close(key: EpochKey, messages: list[Message], queue_bytes: int, packer: Packer) -> ClosedChunk:
    drawn = draft(messages)
    joined, packed = drawn.message, packer.pack(drawn.pack)
    header, columns = joined.header, joined.columns
    first, last = messages[0].header, messages[-1].header
    return ClosedChunk(
        key=key,
        wire_seq0=first.wire_seq,
        wire_seq1=last.wire_seq,
        seq0=first.seq0,
        seq1=last.seq0 + last.n - 1,
        num_events=header.n,
        req0=header.req0,
        names=header.names,
        holders=distinct(columns.req[columns.req <= MAX_ORDINAL]),
        hash0=header.hash0,
        num_hash=len(columns.hashes) // header.hash_width,
        t0_ns=header.t0_wall_ns,
        t1_ns=_last_time(messages[-1]),
        counts=encode_counts(columns),
        bits=encode_filter(touched_blocks(columns)),
        hash_bits=encode_hash_filter(columns.hashes, header.hash_width),
        packed=packed,
        descriptor=header.descriptor,
        queue_bytes=queue_bytes,
        message=joined,
    )


def _last_time(message: Message) -> int:
    """Wall ns of the last operation."""
    times = operation_times(message.header, message.columns)
    return int(times[-1]) if len(times) else message.header.t0_wall_ns
