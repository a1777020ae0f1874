"""Any order of arrivals, steps, aborts, preemptions and resets, under pressure, keeps the laws of pool, cache and
scheduler, with both orders of the free queue and both policies."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kvxray_engine.baselines import Allocation
from kvxray_engine.block_pool import FreeOrder
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.waiting_line import SchedulingPolicy

PREFIXES = [[*range(n)] for n in (0, 4, 8, 11)]


class EngineMachine(RuleBasedStateMachine):
    """A pool of 15 usable blocks of 4 tokens: four long requests fill it."""

    config: dict = {}
    num_blocks = 16

    def __init__(self) -> None:
        super().__init__()
        clock = VirtualClock()
        limits = EngineConfig(max_num_seqs=4, max_num_batched_tokens=10, **self.config)
        model = NullModel(self.num_blocks, 4, vocab_size=60, max_model_len=40, clock=clock)
        self.engine = LLMEngine(model, limits, clock=clock)
        self.leaks = bool(limits.faults)
        self.added = 0

    @rule(
        prefix=st.sampled_from(PREFIXES),
        tail=st.lists(st.integers(0, 5), min_size=1, max_size=12),
        max_tokens=st.integers(1, 15),
        salt=st.sampled_from(["", "", "tenant"]),
        priority=st.integers(-1, 1),
    )
    def add(self, prefix: list[int], tail: list[int], max_tokens: int, salt: str, priority: int) -> None:
        sampling = SamplingParams(max_tokens=max_tokens)
        self.engine.add_request(NewRequest(f"r{self.added}", prefix + tail, sampling, priority, cache_salt=salt))
        self.added += 1

    @rule(steps=st.integers(1, 4))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.step()
            self.engine.check_integrity()

    @precondition(lambda self: self.added)
    @rule(back=st.integers(0, 5))
    def abort(self, back: int) -> None:
        self.engine.abort_request(f"r{max(0, self.added - 1 - back)}")

    @rule()
    def reset(self) -> None:
        idle = self.engine.pool.ref_sum == 0
        assert self.engine.reset_prefix_cache() == idle

    @rule()
    def reset_though_busy(self) -> None:
        assert self.engine.reset_prefix_cache(reset_running_requests=True) == (not self.engine.manager.leaked_holds)
        assert not self.engine.scheduler.running

    @rule()
    def preempt_all(self) -> None:
        waited = [*self.engine.scheduler.waiting]
        ran = [*self.engine.scheduler.running]
        self.engine.scheduler.preempt_all()
        self.engine.check_integrity()
        line = [*self.engine.scheduler.waiting]
        assert sorted(one.ordinal for one in line) == sorted(one.ordinal for one in ran + waited)
        assert self.engine.config.policy is SchedulingPolicy.priority or line == ran + waited

    @invariant()
    def laws_hold(self) -> None:
        self.engine.check_integrity()

    @invariant()
    def the_line_is_in_order(self) -> None:
        if self.engine.config.policy is SchedulingPolicy.priority:
            line = [(request.priority, request.ordinal) for request in self.engine.scheduler.waiting]
            assert line == sorted(line)

    def teardown(self) -> None:
        """Whatever happened, the engine comes to rest with every block back (but those a fault left behind)."""
        for _ in range(2000):
            if not self.engine.has_work or self.leaks:
                break
            self.engine.step()
            self.engine.check_integrity()
        assert self.leaks or not self.engine.has_work, "the engine never comes to rest"
        assert self.engine.pool.ref_sum == len(self.engine.manager.leaked_holds) or self.engine.has_work


class OlderOrderMachine(EngineMachine):
    config = {"free_order": FreeOrder.all_appended}


class PriorityMachine(EngineMachine):
    config = {"policy": SchedulingPolicy.priority, "watermark": 0.1}


class OlderOrderPriorityMachine(EngineMachine):
    config = {"free_order": FreeOrder.all_appended, "policy": SchedulingPolicy.priority}


class LeakingMachine(EngineMachine):
    config = {"faults": (Fault("leak-on-abort"),)}


class ContiguousMachine(EngineMachine):
    config = {"allocation": Allocation.contiguous}
    num_blocks = 36  # three ranges of ten blocks, and five that nobody gets


class BuddyMachine(EngineMachine):
    config = {"allocation": Allocation.buddy, "policy": SchedulingPolicy.priority}
    num_blocks = 24  # 16 + 4 + 2 + 1


MACHINES = [
    EngineMachine, OlderOrderMachine, PriorityMachine, OlderOrderPriorityMachine, LeakingMachine, ContiguousMachine,
    BuddyMachine,
]  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_laws_hold_after_every_step(machine: type[EngineMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
