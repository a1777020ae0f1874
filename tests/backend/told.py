"""Messages made by hand, for tests that need a certain story rather than an engine."""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import SCHEMA_VERSION, Cause, Descriptor, Group, Header, Kind, Name, Pool, QueueEnd

SECOND = 1_000_000_000


def descriptor(num_blocks: int = 9, block_size: int = 16) -> Descriptor:
    return Descriptor(
        num_blocks=num_blocks,
        block_size=block_size,
        null_block=0,
        bytes_per_block=1024,
        groups=(Group(block_size=block_size),),
        pools=(Pool("GPU", "kv", 0, num_blocks),),
        model="told",
        labels={"node": "here"},
    )


class HandClock:
    """A clock that tests set."""

    def __init__(self, wall_ns: int = 1_800_000_000 * SECOND) -> None:
        self.now = wall_ns

    def wall_ns(self) -> int:
        return self.now

    def mono_ns(self) -> int:
        return self.now


class Story:
    """Tells what an engine would, one message a step. `map` folds it along."""

    def __init__(self, num_blocks: int = 9) -> None:
        self.clock = HandClock()
        self.recorder = Recorder(self.clock)
        self.map = BlockMap(descriptor(num_blocks), source="told", incarnation="life-1")
        self.messages: list[Message] = []
        self.step_number = 0
        self._ordinals: dict[str, int] = {}

    def step(self, seconds: float = 0.0) -> Message:
        """Ends the step: what was told since the last becomes a message, folded into `map`."""
        self.recorder.complete_step(0)
        messages, _ = self.recorder.handover.take()
        self.messages += [to_message(one, "told", "life-1", 32) for one in messages]
        self.map.apply(self.messages[-1])
        self.clock.now += int(seconds * SECOND)
        return self.messages[-1]

    def begin(self) -> Recorder:
        if not self.recorder.is_open:
            self.step_number += 1
            self.recorder.start_step(self.step_number)
        return self.recorder

    def arrive(self, request_id: str, prompt: int = 32, **fields: object) -> int:
        recorder = self.begin()
        ordinal = recorder.new_holder(Name(request_id, **fields))
        self._ordinals[request_id] = ordinal
        recorder.op(Kind.RequestArrived, Cause.none, ordinal, 0, prompt)
        return ordinal

    def schedule(self, request_id: str, queried: int = 32, hit: int = 0) -> None:
        self.begin().op(Kind.RequestScheduled, Cause.none, self.of(request_id), queried, hit)

    def allocate(self, request_id: str, *blocks: int) -> None:
        self.begin().rows(Kind.BlockAllocated, Cause.none, self.of(request_id), list(blocks))

    def refer(self, request_id: str, *blocks: int, after: int = 2, cause: Cause = Cause.hit) -> None:
        self.begin().values(Kind.BlockReferenced, cause, self.of(request_id), list(blocks), [after] * len(blocks))

    def cache(self, request_id: str, *blocks: int, parent: int = -1) -> int:
        hashes = [bytes([block]) * 32 for block in blocks]
        return self.begin().cached(self.of(request_id), list(blocks), hashes, parent)

    def fill(self, slots: dict[int, int]) -> None:
        self.begin().values(Kind.BlockFilled, Cause.none, 0xFFFFFFFF, list(slots), list(slots.values()))

    def free(self, request_id: str, *blocks: int, cause: Cause = Cause.finish) -> None:
        self.begin().rows(Kind.BlockFreed, cause, self.of(request_id), list(blocks), QueueEnd.tail)

    def evict(self, *blocks: int) -> None:
        self.begin().rows(Kind.BlockEvicted, Cause.allocation, 0, list(blocks))

    def tokens(self, request_id: str, total: int) -> None:
        self.begin().ops(Kind.TokensGenerated, [self.of(request_id)], [1], [total])

    def end(self, request_id: str, kind: Kind = Kind.RequestFinished) -> None:
        self.begin().op(kind, Cause.none, self.of(request_id), 32, 8)

    def of(self, request_id: str) -> int:
        return self._ordinals[request_id]


def bare_message(wire_seq: int, seq0: int, n: int = 1, incarnation: str = "life-1") -> Message:
    """A message of which only the numbers matter."""
    columns = Columns.empty()
    columns.kind = np.full(n, Kind.StepStarted, np.uint8)
    columns.cause = np.zeros(n, np.uint8)
    for name in ("req", "n", "a0", "a1"):
        setattr(columns, name, np.zeros(n, np.uint32))
    header = Header(
        version=SCHEMA_VERSION, type="events", source="told", incarnation=incarnation, wire_seq=wire_seq, seq0=seq0,
        n=n, step=wire_seq, t0_wall_ns=wire_seq * SECOND, t0_mono_ns=0, lost=0, req0=0, hash0=0, hash_width=32,
        names=(), sizes=(),
    )  # fmt: skip
    return Message(header, columns)
