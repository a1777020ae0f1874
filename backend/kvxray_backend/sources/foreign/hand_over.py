"""From the thread that listens to the one that understands: bounded in bytes, and the listener never waits.

What does not fit is dropped and counted, and whoever takes is told where, and up to which number, so that it can be
asked for again. Live and replayed batches have a room each: a long answer must not push out what is heard.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 64 << 20
# What the objects around a payload take, roughly: many small batches must not be free.
ITEM_BYTES: Final = 300


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who told something, as far as sockets tell: which of the lines it came over, and its topic."""

    line: int
    topic: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """One batch, still packed. `received_ns`: Unix time. `replay_start`: it answers the request from there on; None:
    it was heard live.
    """

    publisher: Publisher
    seq: int
    payload: bytes
    received_ns: int
    replay_start: int | None = None

    @property
    def is_replayed(self) -> bool:
        return self.replay_start is not None


@dataclass(slots=True)
class Dropped:
    """Here `num` batches of the publisher in a row did not fit, the last of them `last_seq`."""

    publisher: Publisher
    num: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class ReplayEnded:
    """The answer to the request from `start` on is complete, but for `num_dropped` batches that did not fit here."""

    publisher: Publisher
    start: int
    num_dropped: int


Item = Heard | Dropped | ReplayEnded


class HandOver:
    """One thread puts, one takes. Invariants: `live_bytes` and `replay_bytes` are the sums over what lies here, and
    neither is above the limit.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """max_bytes: of live batches, and again of replayed ones."""
        self.max_bytes = max_bytes
        self.num_dropped = 0
        self._bytes = {False: 0, True: 0}
        self._items: deque[Item] = deque()
        self._dropping: dict[Publisher, Dropped] = {}  # by publisher, the one that its next drop would only lengthen
        self._is_interrupted = False
        self._changed = threading.Condition()

    def put(self, heard: Heard) -> bool:
        """False: it did not fit. Never waits longer than a `take` needs to move what is there."""
        size = _size(heard)
        with self._changed:
            if self._bytes[heard.is_replayed] + size > self.max_bytes:
                self._drop(heard)
                return False
            self._bytes[heard.is_replayed] += size
            if not heard.is_replayed:
                self._dropping.pop(heard.publisher, None)
            self._items.append(heard)
            self._changed.notify()
        return True

    def put_end(self, ended: ReplayEnded) -> None:
        """Always fits: there is one for each request of ours."""
        with self._changed:
            self._items.append(ended)
            self._changed.notify()

    def take(self, timeout_s: float, limit: int) -> list[Item]:
        """What has come, in order, at most `limit`; waits up to `timeout_s` for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_interrupted, timeout_s)
            taken = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
            for item in taken:
                if isinstance(item, Heard):
                    self._bytes[item.is_replayed] -= _size(item)
                elif isinstance(item, Dropped):
                    self._dropping.pop(item.publisher, None)
            return taken

    def interrupt(self) -> None:
        """From now on nobody waits for something to come."""
        with self._changed:
            self._is_interrupted = True
            self._changed.notify_all()

    def check_integrity(self) -> None:
        """Asserts the invariants."""
        with self._changed:
            heard = [item for item in self._items if isinstance(item, Heard)]
            for is_replayed, told in self._bytes.items():
                assert told == sum(_size(item) for item in heard if item.is_replayed == is_replayed), "bytes miscounted"
                assert told <= self.max_bytes, "more lies here than may"

    def _drop(self, heard: Heard) -> None:
        self.num_dropped += 1
        if heard.is_replayed:
            return  # the end of the answer tells how many
        dropping = self._dropping.get(heard.publisher)
        if dropping is None:
            dropping = self._dropping[heard.publisher] = Dropped(heard.publisher, 0, heard.seq)
            self._items.append(dropping)
        dropping.num += 1
        dropping.last_seq = heard.seq
        self._changed.notify()


def _size(heard: Heard) -> int:
    return len(heard.payload) + len(heard.publisher.topic) + ITEM_BYTES
