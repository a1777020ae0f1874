"""A made-up engine's life on its way into the event log: with messages lost, snapshots taken and its blocks changed on
the way; and what a plain fold has of any moment of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_storage.event_log import EventLog

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.slow_fold import SlowFold

WAIT_S = 60.0


@dataclass(eq=False, repr=False)
class Snapshot:
    """The engine's own state before the next message."""

    state: BlockMap
    slow: SlowFold


@dataclass(eq=False, repr=False)
class Lost:
    message: Message


@dataclass(eq=False, repr=False)
class MadeUpHistory:
    """`told`: messages as they are stored, lost ones, and snapshots between them."""

    engine: ModelEngine
    told: list = field(default_factory=list)

    def __post_init__(self):
        self.first = self.engine.descriptor()
        self.truth, self.slow_truth = BlockMap(self.first, source="engine"), SlowFold(self.first)

    def steps(self, count, *, lost=False):
        for _ in range(count):
            self._add(self.engine.step(), lost=lost)

    def _add(self, message: Message, *, lost=False):
        self.truth.apply(message)
        for _ in self.slow_truth.tell(message):
            pass
        self.told.append(Lost(message) if lost else message)
        self.header = message.header

    def snapshot(self):
        self.told.append(Snapshot(self.truth.copy(), self.slow_truth.copy()))

    def set_clock_back(self, seconds):
        self.engine.clock._wall_ns -= int(seconds * 10**9)

    def change_blocks(self, num_blocks):
        """The engine tells another pool and goes on with it, empty."""
        old = self.engine.recorder
        engine = ModelEngine(num_blocks, seed=num_blocks, rows=self.engine.rows, seldom=self.engine.seldom)
        new = engine.recorder
        new.next_wire_seq, new.next_seq = old.next_wire_seq + 1, old.next_seq
        new.next_req, new.next_hash = old.next_req, old.next_hash
        new._clear()
        engine.number, engine.clock = self.engine.number, self.engine.clock
        new.clock = engine.clock
        header = msgspec.structs.replace(
            self.header, type="descriptor", wire_seq=old.next_wire_seq, seq0=old.next_seq, n=0, names=(),
            req0=old.next_req, hash0=old.next_hash, descriptor=encode_descriptor(engine.descriptor()),
        )  # fmt: skip
        self._add(Message(header, Columns.empty()))
        self.engine = engine

    def store(self, log: EventLog, incarnation="made-up", flush_every=2**62):
        """Everything in the order it was told, committed at least after so much of it. Returns the epoch's key."""
        key = log.open_epoch("engine", {}, incarnation, self.first, self.engine.clock.wall_ns())
        for number, one in enumerate(self.told, 1):
            if isinstance(one, Snapshot):
                state = one.state
                assert log.keyframe(key, state.next_seq, state.next_wire_seq, state.t_ns, snapshot.dump(state))
            elif isinstance(one, Lost):
                header = one.message.header
                last = header.seq0 + header.n - 1
                assert log.gap(key, header.wire_seq, header.wire_seq, header.seq0, last, 1, "lost")
            else:
                while not log.append(key, one):
                    assert log.flush(WAIT_S)
            if number % flush_every == 0:
                assert log.flush(WAIT_S)
        assert log.flush(WAIT_S)
        return key

    def moments(self):
        """(seq, the plain fold just after it), for every event from the first snapshot on; the fold changes on.

        A snapshot tells the state just after the last event before it, known or not.
        """
        slow = None
        for one, following in pairwise([*self.told, None]):
            if isinstance(one, Snapshot):
                slow = one.slow.copy()
            elif slow is not None:
                last = header_of(one).seq0 + header_of(one).n - 1
                for seq in lose(one, slow) if isinstance(one, Lost) else slow.tell(one):
                    is_told = isinstance(following, Snapshot) and seq == last
                    yield seq, following.slow if is_told else slow


def lose(lost, slow):
    slow.forget()
    yield from range(lost.message.header.seq0, lost.message.header.seq0 + lost.message.header.n)


def header_of(told):
    return told.message.header if isinstance(told, Lost) else told.header
