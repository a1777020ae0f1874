"""Any order of arrivals, steps, aborts and resets, under pressure, keeps the laws of pool, cache and scheduler."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kvxray_engine.block_pool import FreeOrder
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams

PREFIXES = [[*range(n)] for n in (0, 4, 8, 11)]


class EngineMachine(RuleBasedStateMachine):
    """A pool of 15 usable blocks of 4 tokens: four long requests fill it."""

    free_order = FreeOrder.unhashed_first
    leak_on_abort = False

    def __init__(self) -> None:
        super().__init__()
        clock = VirtualClock()
        config = EngineConfig(
            max_num_seqs=4, max_num_batched_tokens=10, free_order=self.free_order, leak_on_abort=self.leak_on_abort
        )
        model = NullModel(16, 4, vocab_size=60, max_model_len=40, clock=clock)
        self.engine = LLMEngine(model, config, clock=clock)
        self.added = 0

    @rule(
        prefix=st.sampled_from(PREFIXES),
        tail=st.lists(st.integers(0, 5), min_size=1, max_size=12),
        max_tokens=st.integers(1, 15),
        salt=st.sampled_from(["", "", "tenant"]),
    )
    def add(self, prefix: list[int], tail: list[int], max_tokens: int, salt: str) -> None:
        sampling = SamplingParams(max_tokens=max_tokens)
        self.engine.add_request(NewRequest(f"r{self.added}", prefix + tail, sampling, cache_salt=salt))
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

    @invariant()
    def laws_hold(self) -> None:
        self.engine.check_integrity()

    def teardown(self) -> None:
        """Whatever happened, the engine comes to rest with every block back (but those a fault left behind)."""
        for _ in range(2000):
            if not self.engine.has_work or self.leak_on_abort:
                break
            self.engine.step()
            self.engine.check_integrity()
        assert self.leak_on_abort or not self.engine.has_work, "the engine never comes to rest"
        assert self.engine.pool.ref_sum == len(self.engine.manager.leaked_holds) or self.engine.has_work


class OlderOrderMachine(EngineMachine):
    free_order = FreeOrder.all_appended


class LeakingMachine(EngineMachine):
    leak_on_abort = True


@pytest.mark.parametrize("machine", [EngineMachine, OlderOrderMachine, LeakingMachine])
def test_laws_hold_after_every_step(machine: type[EngineMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
