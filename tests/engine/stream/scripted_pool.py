"""A small made-up engine that tells plausible events through the real recorder, for tests of the stream alone."""

from __future__ import annotations

import hashlib
import random

from kvxray_engine.clock import VirtualClock
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.pool_dump import PoolDump, RequestDump
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Descriptor, Kind, Name, Pool, QueueEnd, RequestStatus

BLOCK_SIZE = 4


def descriptor(num_blocks: int) -> Descriptor:
    return Descriptor(
        num_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        null_block=0,
        pools=(Pool("GPU", "GPU", 0, num_blocks),),
        model="scripted",
    )


class ScriptedPool:
    """Blocks are taken, shared, cached, evicted and given back at random, lawfully; the truth stays in plain lists."""

    def __init__(self, num_blocks: int = 32, seed: int = 0, handover: Handover | None = None) -> None:
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.recorder = Recorder(self.clock, handover)
        self.num_blocks = num_blocks
        self.free = list(range(1, num_blocks))
        self.ref = [0] * num_blocks
        self.hash: list[bytes | None] = [None] * num_blocks
        self.ordinal = [NO_ORDINAL] * num_blocks
        self.slots = [0] * num_blocks
        self.taken = {0}
        self.tables: dict[int, list[int]] = {}
        self.names: dict[int, Name] = {}
        self.output: dict[int, int] = {}
        self.step = 0

    def run_step(self) -> None:
        self.clock.advance_ns(self.random.randrange(1, 40_000_000))
        self.step += 1
        self.recorder.start_step(self.step)
        for _ in range(self.random.randrange(1, 4)):
            self.random.choice([self.arrive, self.arrive, self.grow, self.share, self.end, self.end])()
        running = list(self.tables)
        for req in running:
            self.output[req] += 1
        outputs = [self.output[req] for req in running]
        self.recorder.ops(Kind.TokensGenerated, running, [1] * len(running), outputs)
        self.recorder.complete_step(len(running))
        if self.recorder.wants_dump:
            self.recorder.give_dump(self.dump())

    def arrive(self) -> None:
        name = Name(f"request-{self.recorder.next_req}")
        req = self.recorder.new_holder(name)
        self.names[req], self.output[req], self.tables[req] = name, 0, []
        self.recorder.op(Kind.RequestArrived, Cause.none, req, 0, 8)
        self.recorder.op(Kind.RequestScheduled, Cause.none, req, 8, 0)
        self.take(req, self.random.randrange(1, 4))

    def grow(self) -> None:
        if self.tables:
            self.take(self.random.choice(list(self.tables)), 1)

    def take(self, req: int, count: int) -> None:
        if len(self.free) < count:
            return
        blocks, self.free = self.free[:count], self.free[count:]
        evicted = [b for b in blocks if self.hash[b] is not None]
        self.recorder.rows(Kind.BlockEvicted, Cause.allocation, req, evicted)
        self.recorder.rows(Kind.BlockAllocated, Cause.none, req, blocks)
        for b in blocks:
            self.ref[b], self.hash[b], self.ordinal[b], self.slots[b] = 1, None, NO_ORDINAL, 0
        self.taken.update(blocks)
        self.tables[req] += blocks
        if self.random.random() < 0.6:
            self.cache(req, blocks)
        else:
            slots = [self.random.randrange(1, BLOCK_SIZE) for _ in blocks]
            self.recorder.values(Kind.BlockFilled, Cause.none, NO_ORDINAL, blocks, slots)
            for b, count in zip(blocks, slots, strict=True):
                self.slots[b] = count

    def cache(self, req: int, blocks: list[int]) -> None:
        start = self.recorder.next_hash
        hashes = [hashlib.sha256(f"{req}/{start + i}".encode()).digest() for i in range(len(blocks))]
        first = self.recorder.cached(req, blocks, hashes, -1)
        for i, b in enumerate(blocks):
            self.hash[b], self.ordinal[b], self.slots[b] = hashes[i], first + i, BLOCK_SIZE

    def share(self) -> None:
        held = [b for b in range(1, self.num_blocks) if self.hash[b] is not None and b in self.taken]
        candidates = [r for r in self.tables if held]
        if not candidates:
            return
        req = self.random.choice(candidates)
        hits = [b for b in self.random.sample(held, min(2, len(held))) if b not in self.tables[req]]
        for b in hits:
            if self.ref[b] == 0:
                self.free.remove(b)
            self.ref[b] += 1
        self.recorder.values(Kind.BlockReferenced, Cause.hit, req, hits, [self.ref[b] for b in hits])
        self.tables[req] += hits

    def end(self) -> None:
        if not self.tables:
            return
        req = self.random.choice(list(self.tables))
        blocks = self.tables.pop(req)
        cause, kind = self.random.choice(
            [
                (Cause.finish, Kind.RequestFinished),
                (Cause.abort, Kind.RequestAborted),
                (Cause.error, Kind.RequestFailed),
            ]
        )
        freed, still = [], []
        for b in blocks:
            self.ref[b] -= 1
            (still if self.ref[b] else freed).append(b)
        self.recorder.values(Kind.BlockDereferenced, cause, req, still, [self.ref[b] for b in still])
        self.recorder.rows(Kind.BlockFreed, cause, req, freed, QueueEnd.tail)
        self.free += freed
        self.recorder.op(kind, cause, req, 8, self.output[req])

    def dump(self) -> PoolDump:
        return PoolDump(
            ref_cnt=list(self.ref),
            block_hash=list(self.hash),
            hash_ordinal=list(self.ordinal),
            slots=list(self.slots),
            high_water=max(self.taken) + 1,
            holds=[(b, req) for req, blocks in self.tables.items() for b in blocks],
            next_req=self.recorder.next_req,
            next_hash=self.recorder.next_hash,
            requests=[
                RequestDump(req, self.names[req], RequestStatus.running, 8, self.output[req]) for req in self.tables
            ],
        )
