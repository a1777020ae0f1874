"""Traffic that nothing is wrong with, for our own engine: agents, traces, and a pool where all happens that may."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Cause, Name
from kvxray_engine.tokenizer import ByteTokenizer
from kvxray_engine.trace_runner import TraceRunner
from kvxray_engine.traces import TraceRequest
from kvxray_engine.waiting_line import SchedulingPolicy
from kvxray_engine.workload import Workload, WorkloadConfig

from tests.faults.folded_engine import FoldedEngine

SECOND: Final = 1_000_000_000
STEP_NS: Final = 50_000_000


class HealthyWorkload(ABC):
    """One engine under one kind of traffic, with kvxray behind it in `folded`."""

    folded: FoldedEngine

    @property
    def now_ns(self) -> int:
        """Of the engine's time."""
        return self.folded.clock.wall_ns()

    @abstractmethod
    def step(self) -> bool:
        """One step; False when there is nothing left."""

    def run(self, rows: int) -> None:
        """Until so many rows were told of, or nothing is left."""
        while self.folded.rows < rows and self.step():
            self.folded.follow()


class Agents(HealthyWorkload):
    """Those of the demo: they share a prompt, talk in turns, think, and are sometimes cancelled. In a pool four times
    that of the demo, which is so small on purpose that half of what is evicted is computed again.
    """

    def __init__(self, seed: int) -> None:
        self._clock, tokenizer = VirtualClock(), ByteTokenizer()
        model = NullModel(
            2561, vocab_size=272, max_model_len=2048, eos_token_ids=tokenizer.eos_token_ids, clock=self._clock,
            step_ns=STEP_NS, token_ns=10_000,
        )  # fmt: skip
        recorder = Recorder(self._clock)
        self._engine = LLMEngine(model, EngineConfig(16, 192), recorder, self._clock)
        self._workload = Workload(self._engine, tokenizer, WorkloadConfig(agents=20, seed=seed))
        self.folded = FoldedEngine("agents", self._engine, recorder, self._clock)

    def step(self) -> bool:
        self._workload.tick()
        outputs = self._engine.step()
        self._workload.take(outputs)
        if not self._engine.computed_tokens:
            self._clock.advance_ns(STEP_NS)
        return True


class Trace(HealthyWorkload):
    """A recorded hour of real users, as far as it reaches, through a pool of `num_blocks`."""

    def __init__(self, name: str, trace: Sequence[TraceRequest], num_blocks: int) -> None:
        clock = VirtualClock()
        recorder = Recorder(clock)
        config = EngineConfig(max_num_seqs=256, max_num_batched_tokens=8192)
        self._runner = TraceRunner(trace, num_blocks, 16, config, recorder, clock)
        self.folded = FoldedEngine(name, self._runner.engine, recorder, clock)

    def step(self) -> bool:
        return self._runner.step()


class StumblingModel(NullModel):
    """A step in a thousand fails: its requests end with an error, and give back what they hold."""

    def __init__(self, rng: random.Random, clock: VirtualClock) -> None:
        super().__init__(257, 16, clock=clock, step_ns=STEP_NS, token_ns=10_000)
        self._rng = rng

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        if self._rng.random() < 0.001:
            raise RuntimeError("a step failed on purpose")
        return super().execute(batch)


class Crowd(HealthyWorkload):
    """All at once that is no fault: tenants with salts and adapters, sessions that share a public prompt, priorities,
    preemptions, aborts, steps that fail, bursts that wait for long, idle minutes, resets, leases that end in time and
    pins that are let go of.
    """

    def __init__(self, seed: int) -> None:
        self._rng, self._clock = random.Random(seed), VirtualClock()
        self._recorder = Recorder(self._clock)
        config = EngineConfig(12, 512, policy=SchedulingPolicy.priority)
        self._engine = LLMEngine(StumblingModel(self._rng, self._clock), config, self._recorder, self._clock)
        self.folded = FoldedEngine("crowd", self._engine, self._recorder, self._clock)
        self._held: list[tuple[int, int, list[int]]] = []  # until when, by whom, what
        self._num = 0
        self._rests_until_ns = 0

    def step(self) -> bool:
        now_ns = self._clock.wall_ns()
        self._let_go(now_ns)
        if now_ns >= self._rests_until_ns:
            self._come_and_go()
        self._engine.step()
        if not self._engine.computed_tokens:
            self._clock.advance_ns(STEP_NS)
        return True

    def _come_and_go(self) -> None:
        rng, living = self._rng, [*self._engine.scheduler.requests()]
        if rng.random() < 0.12:
            self._add()
        if rng.random() < 0.0005:
            for _ in range(60):  # they wait for a minute and more
                self._add()
        if living and rng.random() < 0.01:
            self._engine.abort_request(rng.choice(living).request_id)
        if living and rng.random() < 0.01:
            self._hold(rng.choice(living).block_table)
        if rng.random() < 0.0003:
            self._rests_until_ns = self._clock.wall_ns() + rng.randint(60, 300) * SECOND
        if not living and rng.random() < 0.1:
            self._engine.reset_prefix_cache()

    def _add(self) -> None:
        rng = self._rng
        self._num += 1
        tenant = rng.choice(("", "", "blue", "green"))
        shared = [*range(1, 65)] if rng.random() < 0.7 else []
        prompt = shared + rng.choices(range(1000, 40_000), k=rng.randint(3, 400))
        sampling = SamplingParams(max_tokens=rng.choice((3, 40, 40, 200, 900)), ignore_eos=True)
        lora = rng.choice(("", "", "", "sql"))
        self._engine.add_request(
            NewRequest(
                f"request-{self._num}",
                prompt,
                sampling,
                priority=rng.randint(0, 2),
                cache_salt=tenant,
                session=f"session-{rng.randint(1, 40)}",
                lora_name=lora,
                lora_id=1 if lora else 0,
            )  # fmt: skip
        )

    def _hold(self, table: list[int]) -> None:
        """Somebody else holds full blocks of a request for a while: a transfer in time, or a pin."""
        pool, blocks = self._engine.pool, [block for block in table if self._engine.pool.block_hash[block] is not None]
        if not blocks or len(self._held) > 3:
            return
        now_ns, is_lease = self._clock.wall_ns(), self._rng.random() < 0.5
        seconds = self._rng.uniform(0.5, 9.0 if is_lease else 60.0)
        kind, deadline = ("lease", now_ns + 10 * SECOND) if is_lease else ("pin", 0)
        name = Name(id=f"{kind}-{self._num}-{len(self._held)}", kind=kind, deadline=deadline)
        holder = self._recorder.new_holder(name)
        pool.touch(blocks[:20], holder, Cause[kind])
        self._held.append((now_ns + round(seconds * SECOND), holder, blocks[:20]))

    def _let_go(self, now_ns: int) -> None:
        for one in [one for one in self._held if one[0] <= now_ns]:
            self._held.remove(one)
            self._engine.pool.free(one[2][::-1], one[1], Cause.release)
            self._recorder.flush()
