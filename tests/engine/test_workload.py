"""The demo's agents: the same seed is the same run, whoever waits; they share, cancel, give up and go on."""

from random import Random

import pytest
from kvxray_engine.agent_texts import SYSTEM_PROMPT, TASKS
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.faulty_manager import MAX_LOST_SHARE
from kvxray_engine.null_model import NullModel
from kvxray_engine.stream.schema import RequestStatus
from kvxray_engine.tokenizer import ByteTokenizer
from kvxray_engine.workload import Workload, WorkloadConfig, least_context


class Demo:
    """A null model, a small pool and the agents; byte tokens, so the short system prompt."""

    def __init__(self, num_blocks: int = 641, leak: bool = False, **config) -> None:
        clock = VirtualClock()
        self.tokenizer = ByteTokenizer()
        eos = self.tokenizer.eos_token_ids
        model = NullModel(num_blocks, vocab_size=272, max_model_len=2048, eos_token_ids=eos, clock=clock)
        limits = EngineConfig(
            max_num_seqs=16, max_num_batched_tokens=192, faults=(Fault("leak-on-abort"),) if leak else ()
        )
        self.engine = LLMEngine(model, limits, clock=clock)
        self.workload = Workload(self.engine, self.tokenizer, WorkloadConfig(**config))
        self.ended: list[tuple[str, str]] = []

    def run(self, ticks: int) -> "Demo":
        for _ in range(ticks):
            self.workload.tick()
            outputs = self.engine.step()
            self.workload.take(outputs)
            self.workload.check_integrity()
            self.ended += [(one.request_id, one.finish_reason.name) for one in outputs if one.finish_reason]
        self.engine.check_integrity()
        return self


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again, other = (Demo(seed=seed).run(400) for seed in (3, 3, 4))
    assert first.ended == again.ended
    assert first.engine.pool.free_queue() == again.engine.pool.free_queue()
    assert first.ended != other.ended


def test_what_an_agent_says_does_not_depend_on_how_fast_it_is_served() -> None:
    def prompts(**limits) -> dict[str, list[int]]:
        demo = Demo(agents=6, cancelled_share=0.0, **limits)
        sent: dict[str, list[int]] = {}
        add = demo.engine.add_request
        demo.engine.add_request = lambda new: (sent.update({new.request_id: new.prompt_token_ids}), add(new))[1]
        demo.run(1500)
        return sent

    roomy, tight = prompts(), prompts(num_blocks=130)
    both = roomy.keys() & tight.keys()
    assert len(both) > 30
    assert len(roomy) > len(tight), "the tight pool serves fewer"
    assert all(roomy[request_id] == tight[request_id] for request_id in both)


def test_agents_share_the_system_prompt_evict_each_other_and_are_preempted_sometimes() -> None:
    demo = Demo().run(3000)
    stats = demo.engine.prefix_cache.stats
    assert stats.hit_tokens > 0.3 * stats.queried_tokens
    assert max(demo.engine.pool.ref_cnt) > 5, "the system prompt is shared by many"
    assert demo.engine.pool.high_water == 641, "the pool was full, so blocks were evicted"
    assert demo.engine.scheduler.num_preemptions > 0
    assert {reason for _, reason in demo.ended} >= {"length", "abort"}


def test_a_cancelled_agent_gives_up_its_task_and_begins_another() -> None:
    demo = Demo(agents=2, cancelled_share=1.0).run(600)
    assert demo.workload.cancelled > 4
    aborted = [request_id for request_id, reason in demo.ended if reason == "abort"]
    assert all(request_id.endswith("turn-1") for request_id in aborted)
    assert {request_id.split(".")[1] for request_id in aborted} >= {"task-0", "task-1", "task-2"}


def test_without_the_fault_no_ended_request_holds_a_block_over_20_000_virtual_steps() -> None:
    demo = Demo()
    for _ in range(20):
        demo.run(1000)
        living = {request.ordinal for request in demo.engine.scheduler.requests()}
        assert {holder for _, holder in demo.engine.manager.holds(demo.engine.scheduler.requests())} <= living
    assert demo.engine.step_count > 19_000
    assert demo.workload.cancelled > 100
    assert demo.engine.manager.leaked_holds == []


def test_with_the_fault_cancelled_requests_hold_their_blocks_and_the_demo_lives_on() -> None:
    demo = Demo(leak=True, cancelled_share=0.5).run(3000)
    leaking = demo.engine.manager.leaking
    assert leaking
    assert {request.status for request in leaking} == {RequestStatus.aborted}
    leaked = {block for block, _ in demo.engine.manager.leaked_holds}
    assert MAX_LOST_SHARE < len(leaked) / demo.engine.pool.usable_blocks < MAX_LOST_SHARE + 0.25
    before = len(demo.ended)
    assert len(demo.run(500).ended) > before


def test_in_the_least_pool_every_task_begins_and_is_answered() -> None:
    demo = Demo(num_blocks=-(-least_context(ByteTokenizer()) // 16) + 1).run(4000)
    tasks = {request_id.split(".turn")[0] for request_id, _ in demo.ended}
    assert len(tasks) > 20
    assert all(reason in {"length", "stop", "abort"} for _, reason in demo.ended)


@pytest.mark.parametrize("num_blocks", [2, 20, 50])
def test_a_task_that_does_not_fit_is_cut_short(num_blocks: int) -> None:
    demo = Demo(num_blocks=num_blocks, agents=3, cancelled_share=0.0).run(1500)
    assert len(demo.ended) > 3
    assert {reason for _, reason in demo.ended} <= {"length", "stop"}


def test_a_real_vocabulary_gets_the_long_system_prompt() -> None:
    class Words(ByteTokenizer):
        def encode(self, text: str) -> list[int]:
            return super().encode(text)[::4]

    engine = LLMEngine(NullModel(vocab_size=272))
    assert Workload(engine, Words()).system_prompt is SYSTEM_PROMPT
    assert Workload(engine, ByteTokenizer()).system_prompt is not SYSTEM_PROMPT


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_every_task_reads_well_and_grows_with_its_data(task) -> None:
    short, long = (task.turn(0, Random(1), lines) for lines in (3, 20))
    assert "{" not in short
    assert len(long) > len(short) + 200
    assert all("{data}" not in task.turn(number, Random(1), 3) for number in range(1, 6))
