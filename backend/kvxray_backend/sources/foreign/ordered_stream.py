"""What is heard over ZeroMQ, decoded and in order, for each publisher and each rank that shares its stream.

Socket thread, decoder and sequencers put together; whoever owns it calls `next_steps` again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import AskReplay, Step
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.hand_over import Dropped, Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

MAX_ORIGINS: Final = 1024


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
    `num_refused`: batches of more ranks than are told apart. For one thread; the stream is its caller's to close.
    """

    def __init__(
        self,
        stream: ZmqStream,
        decode: Callable[[bytes], Batch],
        turns: ReplayTurns,
        *,
        hold_for_replay: bool = True,
    ) -> None:
        """decode: raises `BadBatch`."""
        self.num_bad = 0
        self.num_refused = 0
        self._stream = stream
        self._decode = decode
        self._turns = turns
        self._hold_for_replay = hold_for_replay
        self._sequencers: dict[Publisher, dict[int | None, BatchSequencer[Delivery]]] = {}

    @property
    def origins(self) -> list[Origin]:
        """In the order in which they were first heard."""
        return [Origin(publisher, rank) for publisher, ranks in self._sequencers.items() for rank in ranks]

    def next_steps(self, timeout_s: float) -> list[tuple[Origin, Step[Delivery]]]:
        """What is to be done now; waits up to `timeout_s` for something to come. Replay is asked for already."""
        steps: list[tuple[Origin, Step[Delivery]]] = []
        for item in self._stream.take(timeout_s):
            steps += self._receive(item, time.monotonic_ns())
        now_ns = time.monotonic_ns()
        for origin, sequencer in self._all():
            steps += self._told(origin, sequencer.advance(now_ns))
        return steps

    def finish(self) -> list[tuple[Origin, Step[Delivery]]]:
        """Nothing more is waited for: what is held, and what is missing."""
        now_ns = time.monotonic_ns()
        return [(origin, step) for origin, sequencer in self._all() for step in sequencer.finish(now_ns)]

    def _receive(self, item: Item, now_ns: int) -> Iterator[tuple[Origin, Step[Delivery]]]:
        ranks = self._sequencers.get(item.publisher, {})
        match item:
            case Heard():
                yield from self._hear(item, now_ns)
            case Dropped(publisher, _, last_seq) if len(ranks) == 1:
                # Where several ranks number their batches themselves, a number does not say whose was dropped.
                for rank, sequencer in ranks.items():
                    yield from self._told(Origin(publisher, rank), sequencer.hear(last_seq, now_ns))
            case ReplayEnded(publisher, start, num_dropped):
                for rank, sequencer in ranks.items():
                    yield from self._told(Origin(publisher, rank), sequencer.replay_ended(start, num_dropped, now_ns))

    def _hear(self, heard: Heard, now_ns: int) -> Iterator[tuple[Origin, Step[Delivery]]]:
        batch = self._decoded(heard)
        origin = Origin(heard.publisher, batch.rank)
        sequencer = self._sequencer(origin)
        if sequencer is None:
            self.num_refused += 1
            return
        steps = sequencer.offer(
            heard.seq, Delivery(batch, heard), len(heard.payload), now_ns, replay_start=heard.replay_start
        )
        yield from self._told(origin, steps)

    def _decoded(self, heard: Heard) -> Batch:
        try:
            return self._decode(heard.payload)
        except BadBatch:
            self.num_bad += 1
            ranks = self._sequencers.get(heard.publisher, {})
            rank = next(iter(ranks)) if len(ranks) == 1 else None
            return Batch(None, rank, (), digest=blake2b(heard.payload, digest_size=16).digest())

    def _sequencer(self, origin: Origin) -> BatchSequencer[Delivery] | None:
        """None: there are too many already."""
        ranks = self._sequencers.setdefault(origin.publisher, {})
        if origin.rank not in ranks:
            if sum(map(len, self._sequencers.values())) >= MAX_ORIGINS:
                return None
            turns = self._turns if self._stream.can_ask(origin.publisher) else None
            ranks[origin.rank] = BatchSequencer(turns, hold_for_replay=self._hold_for_replay)
        return ranks[origin.rank]

    def _told(self, origin: Origin, steps: list[Step[Delivery]]) -> Iterator[tuple[Origin, Step[Delivery]]]:
        for step in steps:
            if isinstance(step, AskReplay):
                self._stream.ask_replay(origin.publisher, step.start)
            else:
                yield origin, step

    def _all(self) -> Iterator[tuple[Origin, BatchSequencer[Delivery]]]:
        for publisher, ranks in self._sequencers.items():
            for rank, sequencer in ranks.items():
                yield Origin(publisher, rank), sequencer
