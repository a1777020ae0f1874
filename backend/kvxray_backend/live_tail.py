"""The newest events in memory, for tails and histories that cannot wait for the event log to commit. Bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from typing import Final

import numpy as np
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.schema import Kind
from kvxray_storage.chunk import MESSAGE_ROW, Chunk
from kvxray_storage.event_rows import ChunkEvents, EventRow

MAX_EVENTS: Final = 20_000
MAX_MESSAGES: Final = 2_000

STEP_KINDS: Final = frozenset({Kind.StepStarted, Kind.StepCompleted})
TOKEN_KINDS: Final = frozenset({Kind.TokensGenerated, Kind.BlockFilled})
"""What every step tells of every request: it would drown the rest of a tail that people watch."""

OTHER_KINDS: Final = frozenset(Kind) - STEP_KINDS - TOKEN_KINDS


class LiveTail:
    """The last messages, whole, oldest first; at least one, else at most MAX_EVENTS events in MAX_MESSAGES messages."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._num_events = 0

    def add(self, message: Message) -> None:
        self._messages.append(message)
        self._num_events += message.header.n
        while len(self._messages) > 1 and (self._num_events > MAX_EVENTS or len(self._messages) > MAX_MESSAGES):
            self._num_events -= self._messages.popleft().header.n

    def clear(self) -> None:
        self._messages.clear()
        self._num_events = 0

    def since(self, seq: int, limit: int, names: Mapping[int, str]) -> list[EventRow]:
        """Up to `limit` events from `seq` on, oldest first."""
        rows: list[EventRow] = []
        for message in self._messages:
            if not message.header.n or message.header.seq0 + message.header.n <= seq or len(rows) >= limit:
                continue
            events = _events_of(message)
            positions = np.flatnonzero(events.seqs() >= seq)
            rows += events.rows(positions[: limit - len(rows)], names)
        return rows

    def newest(self, limit: int, names: Mapping[int, str], kinds: Set[Kind] | None = None) -> list[EventRow]:
        """The last `limit` events of these kinds (None: of all), newest first."""
        wanted = [int(kind) for kind in (kinds if kinds is not None else frozenset(Kind))]
        rows: list[EventRow] = []
        for message, events in self._newest_first():
            of_event = np.repeat(message.columns.kind, message.columns.events_by_operation())
            positions = np.flatnonzero(np.isin(of_event, wanted))[::-1]
            rows += events.rows(positions[: limit - len(rows)], names)
            if len(rows) >= limit:
                break
        return rows

    def of_block(self, block_id: int, from_seq: int, limit: int, names: Mapping[int, str]) -> list[EventRow]:
        """The last `limit` events from `from_seq` on that name the block, newest first."""
        rows: list[EventRow] = []
        for message, events in self._newest_first():
            if message.header.seq0 + message.header.n <= from_seq or len(rows) >= limit:
                break
            positions = events.positions_of_block(block_id)[::-1]
            rows += [row for row in events.rows(positions, names) if row.seq >= from_seq]
        return rows[:limit]

    def check_integrity(self) -> None:
        """Asserts the bounds and the order."""
        assert self._num_events == sum(message.header.n for message in self._messages), "events are miscounted"
        assert len(self._messages) <= MAX_MESSAGES, "the tail is too long"
        starts = [message.header.seq0 for message in self._messages]
        assert starts == sorted(starts), "the tail is out of order"

    def _newest_first(self) -> Iterator[tuple[Message, ChunkEvents]]:
        for message in reversed(self._messages):
            if message.columns.num_operations:
                yield message, _events_of(message)


def _events_of(message: Message) -> ChunkEvents:
    header, columns = message.header, message.columns
    num_hashes = len(columns.hashes) // header.hash_width
    row = (header.seq0, header.t0_wall_ns, header.step, columns.num_operations, len(header.names), num_hashes)
    return ChunkEvents(Chunk(message, np.array([row], MESSAGE_ROW)))
