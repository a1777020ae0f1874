"""The hand-over from the engine's thread to the publisher's: bounded, never blocking, counting what it refuses.

The engine's side costs one append and, when the publisher sleeps, one byte written to a socket pair.
"""

from __future__ import annotations

import contextlib
import socket
from array import array
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_engine.stream.schema import Name, Totals


class Many(NamedTuple):
    """One operation without rows, for many requests; `entry`: of `operations`, before which they belong."""

    entry: int
    kind: int
    reqs: array[int]
    a0s: array[int]
    a1s: array[int]


@dataclass(slots=True)
class RecordedMessage:
    """What the recorder took in one go.

    `operations`: kind, cause, req, n, a0 and a1 of each operation, one after the other. `blk`: one entry a row. `val`:
    one entry a row of a kind with values. What belongs between the entries of a list, but was not put there, is in
    `blk_inserted` and `val_inserted`, with the entry before which it belongs, in order.
    """

    wire_seq: int
    seq0: int
    n: int
    step: int
    t0_wall_ns: int
    t0_mono_ns: int
    lost: int
    req0: int
    hash0: int
    names: list[Name]
    operations: list[int]
    many: list[Many]
    blk: list[int]
    blk_inserted: list[tuple[int, array[int]]]
    val: list[int]
    val_inserted: list[tuple[int, array[int] | range]]
    hashes: list[bytes]
    totals: Totals | None

    @property
    def size(self) -> int:
        """Rows and operations, those with rows counted twice."""
        return self.n + len(self.operations) // 6


class Handover:
    """A queue between two threads. Only the engine's thread calls `offer` and `give_dump`, only the publisher's the
    rest.

    The engine wakes the publisher only where that has said that it sleeps: while it works or rests, an offer is an
    append and nothing more.
    """

    def __init__(self, max_messages: int = 1024, max_rows: int = 1 << 20) -> None:
        self.max_messages = max_messages
        self.max_rows = max_rows
        self._queue: deque[RecordedMessage] = deque()
        self._rows_in = 0
        self._rows_out = 0
        self._dump: tuple[int, PoolDump] | None = None
        self._asleep = False
        self._wake_reader: socket.socket | None = None
        self._wake_writer: socket.socket | None = None

    def offer(self, message: RecordedMessage) -> bool:
        """False when there is no room: the message is dropped, and the caller counts it."""
        rows = message.size
        waiting = self._rows_in - self._rows_out
        if len(self._queue) >= self.max_messages or (waiting and waiting + rows > self.max_rows):
            self.wake()
            return False
        self._rows_in += rows
        self._queue.append(message)
        self.wake()
        return True

    def give_dump(self, wire_seq: int, dump: PoolDump) -> None:
        """Leaves the pool's state after message `wire_seq`; a newer dump replaces one not yet taken."""
        self._dump = (wire_seq, dump)
        self.wake()

    def take(self) -> tuple[list[RecordedMessage], tuple[int, PoolDump] | None]:
        """All that waits. The queue is emptied first, so that a dump covers every message offered before it."""
        messages: list[RecordedMessage] = []
        with contextlib.suppress(IndexError):
            while True:
                message = self._queue.popleft()
                self._rows_out += message.size
                messages.append(message)
        dump, self._dump = self._dump, None
        return messages, dump

    def listen(self) -> int:
        """A file descriptor that becomes readable when a sleeper is woken, until `close`."""
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        return self._wake_reader.fileno()

    def fall_asleep(self) -> bool:
        """The publisher is about to wait for its descriptor. False, and it need not, when something waits already."""
        self._asleep = True
        # Looked at after `_asleep` was set: what is offered from now on wakes, what was offered before is seen here.
        self._asleep = not self._queue and self._dump is None
        return self._asleep

    def wake_up(self) -> None:
        """The publisher waits no longer."""
        self._asleep = False
        if self._wake_reader is not None:
            with contextlib.suppress(OSError):
                while self._wake_reader.recv(64):
                    pass

    def close(self) -> None:
        """Ends the listening; what is offered from now on waits until the queue is full, and is then refused."""
        reader, writer = self._wake_reader, self._wake_writer
        self._wake_reader = self._wake_writer = None
        for end in (reader, writer):
            if end is not None:
                end.close()

    def wake(self) -> None:
        """Makes the descriptor of a publisher that sleeps readable; any thread."""
        writer = self._wake_writer
        if self._asleep and writer is not None:
            self._asleep = False
            with contextlib.suppress(OSError):
                writer.send(b"\0")
