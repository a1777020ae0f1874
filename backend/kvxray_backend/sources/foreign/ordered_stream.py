"""What is heard over ZeroMQ, decoded and in order, for each publisher and each rank that shares its stream.

Socket thread, decoder and the lanes of ranks put together; whoever owns it calls `next_steps` again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import AskReplay, Step
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.first_asks import FirstAsks
from kvxray_backend.sources.foreign.hand_over import Dropped, Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.listening_clock import ListeningClock
from kvxray_backend.sources.foreign.rank_lanes import Rank, RankLanes
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.told import Batch, Oddities
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

MAX_ORIGINS: Final = 1024
UNREADABLE: Final = Oddities(bad_events=1)
"""Of a payload that no decoder understands."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose batches are numbered together. `rank`: data-parallel rank, as the batches tell it."""

    publisher: Publisher
    rank: int | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch, and how it came."""

    batch: Batch
    heard: Heard

    @property
    def ts(self) -> float | None:
        return self.batch.ts

    @property
    def digest(self) -> bytes:
        return self.batch.digest


class OrderedStream:
    """`num_bad`: batches that no decoder understood; they count as heard, so that they are not taken for lost.
    `num_unplaced`: those of them of which nobody can say whose they are, as several ranks number their own.
    `num_refused`: batches of more ranks than are told apart. For one thread; the stream is its caller's to close.
    """

    def __init__(
        self,
        stream: ZmqStream,
        decode: Callable[[bytes], Batch],
        turns: ReplayTurns,
        *,
        hold_for_replay: bool = True,
        asks_at_once: bool = False,
        mono_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """decode: raises `BadBatch`. asks_at_once: for replay, before anything is heard. mono_ns: a clock that never
        goes back.
        """
        self.num_bad = 0
        self.num_unplaced = 0
        self.num_refused = 0
        self._has_received = False
        self._clock = ListeningClock(mono_ns)
        self._stream = stream
        self._decode = decode
        self._turns = turns
        self._hold_for_replay = hold_for_replay
        self._lanes: dict[Publisher, RankLanes[Delivery]] = {}
        self._first_asks = FirstAsks(stream, turns, stream.askable_lines if asks_at_once else [])

    @property
    def is_behind(self) -> bool:
        """Whether more may wait to be taken, or was taken and waits for what is missing before it."""
        return self._has_received or any(lanes.holds_any for lanes in self._lanes.values())

    @property
    def origins(self) -> list[Origin]:
        """In the order in which they were first heard."""
        return [Origin(publisher, rank) for publisher, lanes in self._lanes.items() for rank in lanes.ranks]

    def next_steps(self, timeout_s: float) -> list[tuple[Origin, Step[Delivery]]]:
        """What is to be done now; waits up to `timeout_s` for something to come. Replay is asked for already."""
        steps: list[tuple[Origin, Step[Delivery]]] = []
        self._clock.look()
        items = self._stream.take(timeout_s)
        self._clock.looked()
        self._has_received = bool(items)
        now_ns = self._clock.now_ns
        for item in items:
            steps += self._told(item.publisher, self._receive(item, now_ns))
        self._first_asks.advance(now_ns)
        for publisher, lanes in self._lanes.items():
            steps += self._told(publisher, lanes.advance(now_ns))
        return steps

    def finish(self) -> list[tuple[Origin, Step[Delivery]]]:
        """Nothing more is waited for: what is held, and what is missing. Turns to ask for replay are given back."""
        now_ns = self._clock.now_ns
        self._first_asks.close()
        return [
            told for publisher, lanes in self._lanes.items() for told in self._told(publisher, lanes.finish(now_ns))
        ]

    def _receive(self, item: Item, now_ns: int) -> Iterable[tuple[Rank, Step[Delivery]]]:
        if isinstance(item, ReplayEnded):
            self._first_asks.ended(item)
        match item:
            case Heard():
                return self._hear(item, now_ns)
            case Dropped(publisher, _, last_seq) if publisher in self._lanes:
                return self._lanes[publisher].hear(last_seq, now_ns)
            case ReplayEnded(publisher, start, num_dropped) if publisher in self._lanes:
                return self._lanes[publisher].replay_ended(start, num_dropped, now_ns)
        return ()

    def _hear(self, heard: Heard, now_ns: int) -> Iterable[tuple[Rank, Step[Delivery]]]:
        lanes = self._lanes_of(heard.publisher)
        batch = read_batch(heard.payload, self._decode, lanes)
        if batch is None or batch.oddities is UNREADABLE:
            self.num_bad += 1
        if batch is None:
            self.num_unplaced += 1
            return ()
        if batch.rank not in lanes and sum(map(len, self._lanes.values())) >= MAX_ORIGINS:
            self.num_refused += 1
            return ()
        delivery = Delivery(batch, heard)
        return lanes.offer(heard.seq, delivery, len(heard.payload), now_ns, replay_start=heard.replay_start)

    def _lanes_of(self, publisher: Publisher) -> RankLanes[Delivery]:
        if publisher not in self._lanes:
            turns = self._turns if self._stream.can_ask(publisher) else None
            self._lanes[publisher] = RankLanes(
                lambda: BatchSequencer(turns, hold_for_replay=self._hold_for_replay), rank_of
            )
        return self._lanes[publisher]

    def _told(
        self, publisher: Publisher, steps: Iterable[tuple[Rank, Step[Delivery]]]
    ) -> Iterator[tuple[Origin, Step[Delivery]]]:
        for rank, step in steps:
            if isinstance(step, AskReplay):
                self._stream.ask_replay(publisher, step.start)
            else:
                yield Origin(publisher, rank), step


def read_batch(payload: bytes, decode: Callable[[bytes], Batch], lanes: RankLanes[Delivery]) -> Batch | None:
    """What cannot be read is a batch all the same, of one event that could not be: its number came, so that it is not
    taken for lost. None: it is nobody's, as several ranks number their own.
    """
    try:
        return decode(payload)
    except BadBatch:
        if lanes.num_counts > 1:
            return None
        digest = blake2b(payload, digest_size=16).digest()
        return Batch(None, next(iter(lanes.ranks), None), (), UNREADABLE, digest)


def rank_of(delivery: Delivery) -> Rank:
    return delivery.batch.rank
