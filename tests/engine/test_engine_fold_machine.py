"""The engine and the fold of its own stream agree on every block after every step, whatever happens.

Every message goes the whole way: recorder, columns, bytes, columns, fold.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, BlockState
from kvxray_engine.waiting_line import SchedulingPolicy

SYSTEM_PROMPT = [*range(11)]


class FoldedEngine:
    """An engine, and a fold that follows it only by its messages."""

    def __init__(self, **config) -> None:
        clock = VirtualClock()
        self.recorder = Recorder(clock, Handover())
        model = NullModel(16, 4, vocab_size=60, max_model_len=40, clock=clock)
        limits = EngineConfig(max_num_seqs=4, max_num_batched_tokens=10, **config)
        self.engine = LLMEngine(model, limits, self.recorder, clock)
        self.fold = BlockMap(self.engine.descriptor(), source="test", incarnation="once")

    def step(self) -> None:
        self.engine.step()
        self.follow()

    def follow(self) -> None:
        messages, _ = self.recorder.handover.take()
        for recorded in messages:
            message = to_message(recorded, "test", "once", hash_width=32)
            self.fold.apply(decode(encode(message.header, message.columns)))
        self.compare()

    def compare(self) -> None:
        engine, fold = self.engine, self.fold
        engine.check_integrity()
        fold.check_integrity()
        assert fold.take_faults() == []
        dump = engine.dump_state()
        assert fold.ref.tolist() == dump.ref_cnt
        assert fold.slots.tolist() == dump.slots
        assert fold.hash_ordinal.tolist() == dump.hash_ordinal
        hashes = [None if one == NO_ORDINAL else fold.hash_bytes(one) for one in fold.hash_ordinal.tolist()]
        assert hashes == dump.block_hash
        blocks, holders = fold.holds()
        assert sorted(zip(blocks.tolist(), holders.tolist(), strict=True)) == sorted(dump.holds)
        self.compare_counts(dump)
        self.compare_requests(dump)

    def compare_counts(self, dump) -> None:
        referenced = [(ref > 0) + (ref > 1) for ref in dump.ref_cnt[1:]]
        hashed = [block_hash is not None for block_hash in dump.block_hash[1:]]
        idle = [not ref for ref in referenced]
        cached = sum(a and b for a, b in zip(idle, hashed, strict=True))
        empty = len(dump.ref_cnt) - max(dump.high_water, 1)
        assert self.fold.counts() == {
            BlockState.unknown: 0,
            BlockState.empty: empty,
            BlockState.free: sum(idle) - cached - empty,
            BlockState.cached: cached,
            BlockState.active: referenced.count(1),
            BlockState.shared: referenced.count(2),
        }

    def compare_requests(self, dump) -> None:
        for mine in dump.requests:
            seen = self.fold.requests.get(mine.ordinal)
            assert seen is not None, f"the fold never heard of {mine.name.id}"
            assert (seen.name, seen.status) == (mine.name, mine.status)
            assert (seen.prompt_tokens, seen.output_tokens) == (mine.prompt_tokens, mine.output_tokens)
            assert (seen.queried_tokens, seen.hit_tokens) == (mine.queried_tokens, mine.hit_tokens)
            assert seen.preemptions == mine.preemptions
        living = [one.ordinal for one in self.engine.scheduler.requests()]
        assert [one.ordinal for one in self.fold.requests.live()] == sorted(living)

    def compare_with_fold_from_dump(self) -> None:
        """A fold begun anew from the engine's dump is the fold that followed from the start."""
        fresh = BlockMap(self.engine.descriptor(), known=False)
        fresh.replace_from_dump(self.engine.dump_state(), self.recorder.next_wire_seq - 1)
        fresh.check_integrity()
        for column in ("ref", "hash_ordinal", "slots", "written", "state"):
            usable = getattr(fresh, column)[1:] == getattr(self.fold, column)[1:]
            assert usable.all(), f"{column} differs"
        assert fresh.next_wire_seq == self.fold.next_wire_seq
        assert [list(one) for one in fresh.holds()] == [list(one) for one in self.fold.holds()]

    def close(self) -> None:
        self.recorder.handover.close()


class FoldMachine(RuleBasedStateMachine):
    """Agents that share a system prompt, aborts, resets, and a pool too small for all of them."""

    config: dict = {}

    def __init__(self) -> None:
        super().__init__()
        self.world = FoldedEngine(**self.config)
        self.added = 0

    @rule(
        shares=st.booleans(),
        tail=st.lists(st.integers(0, 5), min_size=1, max_size=12),
        max_tokens=st.integers(1, 15),
        priority=st.integers(0, 1),
    )
    def add(self, shares: bool, tail: list[int], max_tokens: int, priority: int) -> None:
        prompt, sampling = (SYSTEM_PROMPT if shares else []) + tail, SamplingParams(max_tokens=max_tokens)
        self.world.engine.add_request(NewRequest(f"r{self.added}", prompt, sampling, priority))
        self.added += 1

    @rule(steps=st.integers(1, 4))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.world.step()

    @precondition(lambda self: self.added)
    @rule(back=st.integers(0, 5))
    def abort(self, back: int) -> None:
        self.world.engine.abort_request(f"r{max(0, self.added - 1 - back)}")

    @rule(busy=st.booleans())
    def reset(self, busy: bool) -> None:
        self.world.engine.reset_prefix_cache(reset_running_requests=busy)
        self.world.follow()

    def teardown(self) -> None:
        self.world.step()
        self.world.close()


class LeakingFoldMachine(FoldMachine):
    config = {"faults": (Fault("leak-on-abort"),)}


class UncachedFoldMachine(FoldMachine):
    config = {"enable_prefix_caching": False}


class PriorityFoldMachine(FoldMachine):
    config = {"policy": SchedulingPolicy.priority}


@pytest.mark.parametrize("machine", [FoldMachine, LeakingFoldMachine, UncachedFoldMachine, PriorityFoldMachine])
def test_the_folded_state_is_the_engines_after_every_step(machine: type[FoldMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=10,
            stateful_step_count=500,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
        ),
    )


@pytest.mark.parametrize("leak", [False, True])
def test_five_hundred_steps_under_pressure_agree_one_by_one(leak: bool) -> None:
    world = FoldedEngine(faults=(Fault("leak-on-abort"),) if leak else ())
    rng = np.random.default_rng(5)
    for step in range(500):
        while len(world.engine.inbox) + sum(1 for _ in world.engine.scheduler.requests()) < 6:
            prompt = SYSTEM_PROMPT[: int(rng.integers(0, 12))] + rng.integers(0, 60, int(rng.integers(1, 10))).tolist()
            name = f"r{step}.{world.recorder.next_req}.{len(world.engine.inbox)}"
            world.engine.add_request(NewRequest(name, prompt, SamplingParams(max_tokens=int(rng.integers(1, 16)))))
        if rng.random() < (0.004 if leak else 0.05):
            victims = [*world.engine.scheduler.requests()]
            world.engine.abort_request(victims[int(rng.integers(len(victims)))].request_id)
        world.step()
        if step % 25 == 0:
            world.compare_with_fold_from_dump()
    assert world.engine.step_count == 500
    assert leak or world.engine.scheduler.num_preemptions > 10, "the run must feel pressure to prove anything"
    assert bool(world.engine.manager.leaked_holds) == leak
    world.close()
