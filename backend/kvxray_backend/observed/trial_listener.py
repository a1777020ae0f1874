"""Listens to an engine that is being tried until enough was heard: its events, and what it can tell again of its past.

An engine is not held up by it. Its replay is asked for the end of an answer alone; for the past only where that is
short, or where the engine is idle.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Literal

from kvxray_backend.inspection.dialect import Encoding, encodings_of
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

LISTEN_S: Final = 4.5
QUIET_S: Final = 1.5
"""Without a word for so long an engine is idle."""
GOES_ON_S: Final = 1.0
"""After the first batch: ranks and groups that speak seldom may follow."""
REPLAY_S: Final = 3.0
"""After the first batch: within so long replay has answered."""
MAX_READ: Final = 500
MAX_ASKED_AGAIN: Final = 2_000
"""Batches that an engine at work can tell again without being held up."""
# Nobody is there: the engine answers with the end of its answer alone.
_BEYOND: Final = (1 << 62) - 1


class TrialListener:
    """`first`: by publisher, the earliest batch that was heard or can be had. `num_heard`, `num_repeated`: batches.
    `num_read`: of those, how many were looked into (`encodings`, `ranks`, `session`).
    """

    def __init__(self, stream: ZmqStream, num_lines: int, *, has_replay: bool) -> None:
        self.num_heard = self.num_repeated = self.num_read = 0
        self.first: dict[Publisher, int] = {}
        self.encodings: set[Encoding] = set()
        self.ranks: set[int] = set()
        self.session = OfflineSession(hold_for_replay=False)
        self.connections: list[int] = []
        self._stream = stream
        self._num_lines = num_lines
        self._has_replay = has_replay
        self._answers = False
        self._is_past_asked = False
        self._num_waiting = 0
        self._began_s = time.monotonic()
        self._first_s: float | None = None

    @property
    def replay(self) -> Literal["answers", "silent", "none"]:
        if not self._has_replay:
            return "none"
        return "answers" if self._answers else "silent"

    @property
    def is_whole(self) -> bool:
        """Whether everything from the engine's first batch on was heard or can be had."""
        return bool(self.first) and not any(self.first.values())

    @property
    def took_s(self) -> float:
        return time.monotonic() - self._began_s

    def run(self) -> None:
        if self._has_replay:
            self._stream.ask_replay(Publisher(0, b""), _BEYOND)
        while not self._has_enough():
            for item in self._stream.take(0.1):
                if isinstance(item, Heard):
                    self._hear(item)
                elif isinstance(item, ReplayEnded):
                    self._answers = True
                    self._num_waiting -= item.start == 0
            if self._is_idle:
                self._ask_past(Publisher(line, b"") for line in range(self._num_lines))
        self.connections = self._stream.num_connections

    @property
    def _is_idle(self) -> bool:
        return self._answers and not self.num_heard and not self._is_past_asked and self.took_s >= QUIET_S

    def _has_enough(self) -> bool:
        if self.took_s >= LISTEN_S:
            return True
        if self._first_s is None:
            return self.num_read > 0 and (self._num_waiting <= 0 or self.num_read >= MAX_READ)
        is_settled = not self._has_replay or (self._answers and self._num_waiting <= 0)
        return time.monotonic() - self._first_s >= (GOES_ON_S if is_settled else REPLAY_S)

    def _hear(self, heard: Heard) -> None:
        publisher, is_new = heard.publisher, heard.publisher not in self.first
        self.first[publisher] = min(heard.seq, self.first.get(publisher, heard.seq))
        if heard.is_replayed:
            self.num_repeated += 1
            # While the engine speaks, its present is what is read; batches of its past would come out of order.
            if self.num_heard:
                return
        else:
            self._first_s = self._first_s or time.monotonic()
            self.num_heard += 1
            if is_new and self._has_replay and 0 < heard.seq <= MAX_ASKED_AGAIN:
                self._ask_past([publisher])
        self._read(heard)

    def _ask_past(self, publishers: Iterable[Publisher]) -> None:
        """Whether replay reaches back to the first batch decides what will be exact."""
        self._is_past_asked = True
        for publisher in publishers:
            self._stream.ask_replay(publisher, 0)
            self._num_waiting += 1

    def _read(self, heard: Heard) -> None:
        self.num_read += 1
        if self.num_read > MAX_READ:
            return
        line = heard.publisher.line
        self.encodings |= encodings_of(heard.payload)
        self.ranks.add(_rank_told(heard.payload, line))
        self.session.feed(f"rank {line}", heard.publisher.topic, heard.seq, heard.payload, heard.received_ns)


def _rank_told(payload: bytes, line: int) -> int:
    """By the batch, else by the line that it came over."""
    try:
        rank = decode_batch(payload).rank
    except BadBatch:
        return line
    return line if rank is None else rank
