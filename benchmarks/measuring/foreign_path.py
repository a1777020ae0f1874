"""The way of a foreign engine's batches through the product, from the payload to the commit, without sockets: decoded,
put in order, interned, folded and stored by the code that follows live engines, each stage with its own clock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.live_tail import LiveTail
from kvxray_backend.observed.listener import STEPS_A_TURN
from kvxray_backend.observed.rank_log import RankLog
from kvxray_backend.observed.ranks import Recording
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Heard, Item, Publisher
from kvxray_backend.sources.foreign.ordered_stream import OrderedStream
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.clock import SystemClock
from kvxray_storage.event_log import EventLog

AT_ONCE: Final = 256
"""Batches handed over in one go, as the socket thread does under load."""
MAX_QUEUE_BYTES: Final = 16 << 20
"""Waits for the log beyond that: what is measured is a rate at which nothing is lost."""
FULL_PAUSE_S: Final = 0.002
FLUSH_S: Final = 120.0
_KEY: Final = b"benchmark"
STAGES: Final = ("decode", "sequence", "follow", "fold", "record", "store")
"""`follow`: hashes become ordinals, and whatever is odd a finding. `record`: into the live tail and the waiting line.
`store`: handing over to the log's own thread.
"""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class StageClock:
    """`seconds`: by stage, each without the stages that ran within it; of processor time of this thread, so that what
    other threads and programs take does not count.
    """

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    _inner: list[float] = field(default_factory=lambda: [0.0])

    def timed(self, stage: str, call: Callable[P, R]) -> Callable[P, R]:
        """The same call, on the clock."""

        def clocked(*args: P.args, **kwargs: P.kwargs) -> R:
            self._inner.append(0.0)
            begun = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                took = time.thread_time() - begun
                self.seconds[stage] += took - self._inner.pop()
                self._inner[-1] += took

        return clocked

    def reset(self) -> None:
        self.seconds.update(dict.fromkeys(STAGES, 0.0))


class ForeignPath:
    """One rank of one engine that is followed into an event log. `clock`: seconds of each stage so far."""

    def __init__(self, log: EventLog) -> None:
        self.clock = StageClock()
        self._log = log
        name = f"bench-foreign-{uuid.uuid4().hex[:8]}"
        self._rank_log = RankLog(log, SystemClock(), name, {})
        self._handed = _Handed()
        chains = TokenChains(_KEY)
        decode = self.clock.timed("decode", lambda payload: decode_batch(payload, chains))
        self._next_steps = self.clock.timed("sequence", OrderedStream(self._handed, decode, ReplayTurns()).next_steps)
        recording = self.clock.timed("record", Recording(LiveTail(), self._rank_log))
        self._source = FollowedSource(name, NameFilter(_KEY), HashesByTokens(), record=recording)
        self._follow = self.clock.timed("follow", self._source.take)
        self._store = self.clock.timed("store", self._rank_log.flush)
        self._fold = self._source.fold
        self._fold.apply = self.clock.timed("fold", self._fold.apply)  # type: ignore[method-assign]

    def take(self, payloads: Sequence[bytes]) -> None:
        """The next batches, until they are durable."""
        for at in range(0, len(payloads), AT_ONCE):
            self._handed.hand(payloads[at : at + AT_ONCE])
            steps = self._next_steps(0.0)
            for turn in range(0, len(steps), STEPS_A_TURN):
                self._follow(*(step for _, step in steps[turn : turn + STEPS_A_TURN]))
                self._store()
            while self._log.stats().queue_bytes > MAX_QUEUE_BYTES:
                time.sleep(FULL_PAUSE_S)
        assert self._log.flush(FLUSH_S), "the database takes no writes"

    def close(self) -> None:
        self._handed.close()

    def check_integrity(self, num_batches: int) -> None:
        """Asserts that so many batches were folded in one epoch, and stored."""
        self._source.check_integrity()
        assert self._source.fold is self._fold, "another epoch began in the middle"
        assert self._fold.next_wire_seq == num_batches, "batches are missing"
        assert self._rank_log.num_lost == 0, "batches were not stored"
        assert self._rank_log.key is not None, "nothing was stored"
        cursor = self._log.cursor(self._rank_log.key)
        assert cursor is not None, "nothing is durable"
        assert cursor.next_wire_seq == num_batches, "not all batches are durable"


class _Handed(ZmqStream):
    """Batches that were heard already."""

    def __init__(self) -> None:
        super().__init__(())
        self._waiting: list[Item] = []
        self._next_seq = 0

    def hand(self, payloads: Sequence[bytes]) -> None:
        now_ns = time.time_ns()
        for payload in payloads:
            self._waiting.append(Heard(Publisher(0, b""), self._next_seq, payload, now_ns))
            self._next_seq += 1

    def take(self, timeout_s: float, limit: int = AT_ONCE) -> list[Item]:
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return taken

    def can_ask(self, publisher: Publisher) -> bool:
        return False
