"""A made-up engine that tells a legal stream of every kind of event a pool's stream has, fast: sessions that come back,
shared beginnings, evictions, forks, preemptions, pins, leases, offloading.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from kvxray_engine.clock import VirtualClock
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Descriptor, Kind, Name, Pool

from benchmarks.measuring.model_pool import BLOCK_SIZE, ModelPool

HASH_WIDTH = 32
SHARED_BEGINNINGS = 24
LONGEST_CHAIN = 160  # blocks of a session, after which it begins anew


@dataclass(eq=False)
class ModelRequest:
    """`chain`: hashes of its whole prompt and more, as far as it will get; `blocks`: what it holds, in order."""

    ordinal: int
    chain: list[bytes]
    prompt_blocks: int
    blocks: list[int] = field(default_factory=list)
    cached: int = 0
    slots: int = 0
    output: int = 0
    target: int = 0
    fork: int = NO_ORDINAL
    fork_blocks: list[int] = field(default_factory=list)


class ModelEngine:
    """One `step` is one message. `rows`: about how many events it has. `seldom`: in how many steps about one of the
    rare things happens.
    """

    def __init__(
        self,
        num_blocks: int = 32_768,
        rows: int = 512,
        seed: int = 0,
        incarnation: str = "made-up",
        seldom: float = 8.0,
    ) -> None:
        self.rows = rows
        self.seldom = seldom
        num_cpu = max(4, num_blocks // 8)
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.recorder = Recorder(self.clock)
        self.pool = ModelPool(self.recorder, num_blocks - num_cpu, num_cpu, self.random)
        self.incarnation = incarnation
        self.num_blocks = num_blocks
        self.admissions = max(1, rows // 250)
        self.prompt_blocks = max(2, min(64, rows // 8, num_blocks // 16))
        self.most_running = max(4, num_blocks // (2 * self.prompt_blocks))
        self.decoding = max(4, rows // 10)
        self.running: deque[ModelRequest] = deque()
        self.preempted: list[ModelRequest] = []
        self.sessions: list[list[bytes]] = []
        self.beginnings = [self._hashes(self.prompt_blocks // 2 or 1) for _ in range(SHARED_BEGINNINGS)]
        self.holds: deque[tuple[int, list[int]]] = deque()
        self.number = 0

    def descriptor(self) -> Descriptor:
        pools = (
            Pool("GPU", "GPU", 0, self.pool.num_gpu),
            Pool("CPU", "CPU", self.pool.num_gpu, self.num_blocks - self.pool.num_gpu),
        )
        return Descriptor(self.num_blocks, BLOCK_SIZE, null_block=0, pools=pools, model="made-up")

    def step(self) -> Message:
        self.number += 1
        self.clock.advance_ns(self.random.randrange(2_000, 20_000) * 1000)
        self.recorder.start_step(self.number)
        for _ in range(self.admissions):
            self._admit()
        self._seldom()
        tokens = self._decode()
        self._finish()
        self.clock.advance_ns(self.random.randrange(1_000, 9_000) * 1000)
        self.recorder.complete_step(tokens)
        [recorded], _ = self.recorder.handover.take()
        return to_message(recorded, "engine", self.incarnation, HASH_WIDTH)

    def _hashes(self, count: int) -> list[bytes]:
        many = self.random.randbytes(count * HASH_WIDTH)
        return [many[at : at + HASH_WIDTH] for at in range(0, len(many), HASH_WIDTH)]

    def _chain(self) -> list[bytes]:
        """The prompt of a new session, or that of one that comes back and has grown."""
        if self.sessions and self.random.random() < 0.4:
            chain = self.sessions.pop(self.random.randrange(len(self.sessions)))
            if len(chain) < min(LONGEST_CHAIN, 4 * self.prompt_blocks):
                return chain + self._hashes(self.random.randint(1, max(1, self.prompt_blocks // 4)))
        own = self._hashes(self.random.randint(1, self.prompt_blocks))
        return self.random.choice(self.beginnings) + own if self.random.random() < 0.5 else own

    def _admit(self) -> None:
        if len(self.running) >= self.most_running:
            self._end(self.running.popleft())
        if self.preempted and self.random.random() < 0.5:
            request = self.preempted.pop()
            if self._give_blocks(request):
                self.recorder.op(Kind.RequestResumed, Cause.none, request.ordinal, len(request.chain) * BLOCK_SIZE)
                self.running.append(request)
            else:
                self.preempted.append(request)
            return
        chain = self._chain()
        name = Name(f"request-{self.recorder.next_req}", session=f"session-{self.random.randrange(1000)}")
        request = ModelRequest(self.recorder.new_holder(name), chain, len(chain))
        request.target = self.random.randint(1, 20 * BLOCK_SIZE)
        self.recorder.op(Kind.RequestArrived, Cause.none, request.ordinal, 0, len(chain) * BLOCK_SIZE)
        if not self._give_blocks(request):
            self.recorder.op(Kind.RequestFailed, Cause.capacity, request.ordinal, len(chain) * BLOCK_SIZE, 0)
            return
        self.running.append(request)

    def _give_blocks(self, request: ModelRequest) -> bool:
        """All of the prompt and one to write to; what is cached is shared."""
        hits = self.pool.hits(request.chain)
        needed = len(request.chain) - len(hits) + 1
        if needed + len(hits) >= len(self.pool.free):
            return False
        ordinal = request.ordinal
        self.pool.reference(ordinal, hits, Cause.hit)
        request.blocks = hits + self.pool.allocate(ordinal, needed)
        prompt = len(request.chain) * BLOCK_SIZE
        self.recorder.op(Kind.RequestScheduled, Cause.none, ordinal, prompt, len(hits) * BLOCK_SIZE)
        fresh = request.chain[len(hits) :]
        before = hits[-1] if hits else None
        self.pool.cache(ordinal, request.blocks[len(hits) : len(request.chain)], fresh, before)
        request.slots = 0
        return True

    def _decode(self) -> int:
        """The next of the running write some tokens to their last block (the others wait for tools to answer); a full
        one is cached and another taken.
        """
        decoding = [self.running[at] for at in range(min(self.decoding, len(self.running)))]
        written = [self.random.randint(1, 4) for _ in decoding]
        blocks, slots = [], []
        for request, tokens in zip(decoding, written, strict=True):
            request.output += tokens
            request.slots += tokens
            if request.slots >= BLOCK_SIZE and self.pool.free:
                self._fill_block(request)
            request.slots = min(request.slots, BLOCK_SIZE - 1)
            blocks.append(request.blocks[-1])
            slots.append(request.slots)
        self.recorder.filled(blocks, slots)
        requests = [request.ordinal for request in decoding]
        self.recorder.ops(Kind.TokensGenerated, requests, written, [request.output for request in decoding])
        return sum(written)

    def _fill_block(self, request: ModelRequest) -> None:
        [one] = self._hashes(1)
        before = request.blocks[-2] if len(request.blocks) > 1 else None
        self.pool.cache(request.ordinal, request.blocks[-1:], [one], before)
        request.chain.append(one)
        request.blocks += self.pool.allocate(request.ordinal, 1)
        request.slots -= BLOCK_SIZE

    def _finish(self) -> None:
        for _ in range(min(self.decoding, len(self.running))):
            request = self.running.popleft()
            if request.output >= request.target:
                self._end(request)
            else:
                self.running.append(request)

    def _end(self, request: ModelRequest) -> None:
        kind, cause = Kind.RequestFinished, Cause.finish
        chance = self.random.random()
        if chance < 0.06:
            kind, cause = (Kind.RequestAborted, Cause.abort) if chance < 0.04 else (Kind.RequestFailed, Cause.error)
        if request.fork != NO_ORDINAL:
            self.pool.release(request.fork, request.fork_blocks, cause)
        self.pool.release(request.ordinal, request.blocks, cause)
        self.recorder.op(kind, cause, request.ordinal, request.prompt_blocks * BLOCK_SIZE, request.output)
        self.sessions.append(request.chain)
        if len(self.sessions) > 2000:
            self.sessions.pop(0)

    def _seldom(self) -> None:
        """What happens now and then."""
        chance = self.random.random() * self.seldom
        if chance < 0.25:
            self._preempt()
        elif chance < 0.45:
            self._fork()
        elif chance < 0.6:
            self._pin()
        elif chance < 0.7:
            self._offload()
        elif chance < 0.85:
            self._slide_window()
        elif chance < 0.95:
            self._evict_explicitly()
        elif chance < 0.953:
            self.pool.clear_gpu()
        if len(self.holds) > 4:
            self.pool.release(*self.holds.popleft(), Cause.release)

    def _preempt(self) -> None:
        plain = [request for request in self.running if request.fork == NO_ORDINAL]
        if len(plain) < 2:
            return
        request = plain[-1]
        self.running.remove(request)
        self.pool.release(request.ordinal, request.blocks, Cause.preempt)
        recomputed = len(request.blocks) * BLOCK_SIZE
        self.recorder.op(Kind.RequestPreempted, Cause.preempt, request.ordinal, recomputed, self.running[0].ordinal)
        request.blocks = []
        self.preempted.append(request)

    def _fork(self) -> None:
        """A second sequence shares all blocks of its request, and gets a last one of its own."""
        plain = [request for request in self.running if request.fork == NO_ORDINAL and request.blocks]
        if not plain or len(self.pool.free) < 8:
            return
        request = self.random.choice(plain)
        name = Name(f"request-{request.ordinal}/1", kind="sequence", parent=request.ordinal)
        request.fork = self.recorder.new_holder(name)
        self.pool.reference(request.fork, request.blocks, Cause.fork)
        own = self.pool.copy_on_write(request.fork, request.blocks[-1])
        request.fork_blocks = [*request.blocks[:-1], own]

    def _pin(self) -> None:
        """A pin or a lease on blocks that a running request holds."""
        if not self.running:
            return
        request = self.random.choice(self.running)
        blocks = request.blocks[: self.random.randint(1, 4)]
        is_lease = self.random.random() < 0.5
        deadline = self.clock.wall_ns() + 10**10 if is_lease else 0
        name = Name(f"hold-{self.recorder.next_req}", kind="lease" if is_lease else "pin", deadline=deadline)
        holder = self.recorder.new_holder(name)
        self.pool.reference(holder, blocks, Cause.lease if is_lease else Cause.pin)
        if is_lease:
            self.recorder.op(Kind.LeaseChanged, Cause.lease, holder, 20_000)
        self.holds.append((holder, blocks))

    def _offload(self) -> None:
        chosen = self._idle_cached(min(8, (self.num_blocks - self.pool.num_gpu) // 2))
        if chosen:
            self.pool.offload(chosen)

    def _evict_explicitly(self) -> None:
        self.pool.evict(self._idle_cached(3), Cause.explicit)

    def _idle_cached(self, count: int) -> list[int]:
        """Some of the blocks that will be given out next, if they are cached."""
        found = []
        for _, block in zip(range(4 * count), self.pool.free, strict=False):
            if self.pool.hash_of[block] is not None:
                found.append(block)
        return found[:count]

    def _slide_window(self) -> None:
        """The oldest block of a request falls out of its window."""
        plain = [request for request in self.running if request.fork == NO_ORDINAL and len(request.blocks) > 2]
        if plain:
            request = self.random.choice(plain)
            self.pool.release(request.ordinal, [request.blocks.pop(0)], Cause.window)
