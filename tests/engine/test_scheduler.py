"""The scheduler: who is served, who is admitted, who is preempted for whom."""

import pytest
from kvxray_engine.block_pool import BlockPool
from kvxray_engine.clock import VirtualClock
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import FinishReason, Request
from kvxray_engine.scheduler import Scheduler
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Name, RequestStatus
from kvxray_engine.waiting_line import SchedulingPolicy


class World:
    """A scheduler alone, and a step that computes whatever was planned and samples the token 7."""

    def __init__(
        self, num_blocks: int = 33, max_num_seqs: int = 8, max_num_batched_tokens: int = 64, watermark=0.0, **more
    ) -> None:
        recorder = NullRecorder()
        pool = BlockPool(num_blocks, 4, recorder)
        manager = KVCacheManager(pool, PrefixCache(pool), watermark)
        self.pool = pool
        self.scheduler = Scheduler(manager, recorder, VirtualClock(), max_num_seqs, max_num_batched_tokens, **more)
        self.added = 0

    def add(self, tokens: list[int], priority: int = 0) -> Request:
        name = "abcdefgh"[self.added]
        request = Request(name, self.added, Name(name), list(tokens), len(tokens), SamplingParams(), priority)
        self.added += 1
        self.scheduler.add(request)
        return request

    def step(self) -> dict[str, int]:
        """Tokens scheduled for each request, in the order of the batch."""
        plan = self.scheduler.schedule()
        for request, sequence in zip(plan.requests, plan.sequences, strict=True):
            request.num_computed_tokens += len(sequence.token_ids)
            if sequence.samples:
                request.token_ids.append(7)
        self.scheduler.check_integrity()
        return {sequence.request_id: len(sequence.token_ids) for sequence in plan.sequences}


def test_prefill_then_one_token_a_step() -> None:
    world = World()
    request = world.add([1, 2, 3])
    assert [world.step(), world.step(), world.step()] == [{"a": 3}, {"a": 1}, {"a": 1}]
    assert request.num_output_tokens == 3


def test_long_prompts_are_prefilled_in_chunks_beside_those_that_decode() -> None:
    world = World(max_num_batched_tokens=8)
    world.add([1, 2, 3])
    world.add([*range(10, 26)])
    assert [world.step() for _ in range(4)] == [{"a": 3, "b": 5}, {"a": 1, "b": 7}, {"a": 1, "b": 4}, {"a": 1, "b": 1}]


def test_a_chunk_that_ends_before_the_prompt_does_not_sample() -> None:
    world = World(max_num_batched_tokens=8)
    world.add([*range(10)])
    assert [sequence.samples for sequence in world.scheduler.schedule().sequences] == [False]


def test_seats_are_limited_and_nobody_is_overtaken() -> None:
    world = World(max_num_seqs=2)
    first = world.add([1])
    world.add([2])
    world.add([3])
    assert world.step() == {"a": 1, "b": 1}
    world.scheduler.end(first, FinishReason.length)
    assert world.step() == {"b": 1, "c": 1}


def test_a_request_that_does_not_fit_holds_back_those_behind_it() -> None:
    world = World(num_blocks=5)
    world.add([1, 2, 3, 4, 5, 6, 7])
    world.add([*range(20, 31)])
    world.add([9])
    assert world.step() == {"a": 7}
    assert [request.request_id for request in world.scheduler.waiting] == ["b", "c"]


def test_requests_of_one_step_share_a_prefix() -> None:
    world = World()
    world.add([*range(9)])
    second = world.add([*range(9)])
    assert world.step() == {"a": 9, "b": 1}
    assert second.block_table[:2] == [1, 2]


def test_the_last_admitted_is_preempted_and_comes_back_first() -> None:
    world = World(num_blocks=5)
    first, second = world.add([*range(8)]), world.add([*range(20, 27)])
    world.add([99])
    assert world.step() == {"a": 8, "b": 7}
    assert world.step() == {"a": 1}, "a needs a third block: b gives up its two, and nobody is admitted in this step"
    assert (second.status, second.block_table, second.num_preemptions) == (RequestStatus.preempted, [], 1)
    assert [request.request_id for request in world.scheduler.waiting] == ["b", "c"]
    world.scheduler.end(first, FinishReason.length)
    assert world.step() == {"b": 4, "c": 1}, "b hits the block it had cached, and computes the rest again"


def test_a_request_alone_may_have_to_preempt_itself() -> None:
    world = World(num_blocks=3)
    request = world.add([*range(8)])
    assert world.step() == {"a": 8}
    assert world.step() == {}
    assert request.status is RequestStatus.preempted
    assert world.step() == {}, "nine tokens never fit two blocks, so it waits"


@pytest.mark.parametrize("reason", FinishReason)
def test_an_ended_request_has_given_back_its_blocks(reason: FinishReason) -> None:
    world = World()
    running, waiting = world.add([*range(9)]), world.add([*range(30)])
    world.scheduler.max_num_seqs = 1
    world.step()
    world.scheduler.end(running, reason)
    world.scheduler.end(waiting, reason)
    assert world.pool.ref_sum == 0
    assert list(world.scheduler.requests()) == []
    world.scheduler.check_integrity()


def test_by_priority_the_most_urgent_is_admitted_first_and_of_equals_the_first_to_come() -> None:
    world = World(max_num_seqs=1, policy=SchedulingPolicy.priority)
    requests = [world.add([one], priority) for one, priority in enumerate([5, 0, 5, -1])]
    order = []
    for _ in requests:
        (served,) = world.step()
        order.append(served)
        world.scheduler.end(world.scheduler.running[0], FinishReason.length)
    assert order == ["d", "b", "a", "c"]


def test_by_priority_the_least_urgent_is_preempted_wherever_it_stands() -> None:
    world = World(num_blocks=7, policy=SchedulingPolicy.priority)
    urgent, patient, middle = world.add([*range(8)], 0), world.add([*range(20, 27)], 9), world.add([*range(40, 47)], 5)
    assert world.step() == {"a": 8, "c": 7, "b": 7}
    assert world.step() == {"a": 1, "c": 1}, "a needs a third block: b, the least urgent, gives up its two"
    assert (patient.status, middle.status) == (RequestStatus.preempted, RequestStatus.running)
    world.scheduler.end(urgent, FinishReason.length)
    assert world.step() == {"c": 1, "b": 4}


def test_by_priority_one_that_was_planned_in_this_step_may_still_give_way() -> None:
    world = World(num_blocks=5, policy=SchedulingPolicy.priority)
    patient = world.add([*range(20, 26)], 9)
    assert world.step() == {"a": 6}
    urgent = world.add([*range(8)], 0)
    assert world.step() == {"a": 1, "b": 8}
    plan = world.scheduler.schedule()
    assert [request.request_id for request in plan.requests] == ["b"]
    assert plan.num_tokens == 1
    assert (patient.status, patient.num_preemptions) == (RequestStatus.preempted, 1)
    assert world.pool.ref_sum == len(urgent.block_table) == 3
    world.scheduler.check_integrity()


def test_blocks_hashed_for_tokens_that_are_then_not_computed_cannot_be_hit() -> None:
    """The victim was planned to fill three blocks in the very step in which it gives way."""
    world = World(num_blocks=6, max_num_batched_tokens=11, policy=SchedulingPolicy.priority)
    patient = world.add([*range(20, 32)], 9)
    world.add([*range(8)], 0)
    assert world.step() == {"b": 8, "a": 3}
    world.scheduler.running.reverse()  # so that the patient one is planned before the urgent one finds no block
    assert world.step() == {"b": 1}
    assert patient.status is RequestStatus.preempted
    assert world.scheduler.manager.prefix_cache.longest_hit(patient) == []
    assert world.pool.num_hashed == 2


def test_preempting_all_keeps_their_order() -> None:
    world = World()
    for first in (10, 20, 30):
        world.add([first, first + 1])
    world.step()
    world.scheduler.preempt_all()
    world.scheduler.check_integrity()
    assert world.pool.ref_sum == 0
    assert [request.request_id for request in world.scheduler.waiting] == ["a", "b", "c"]
    assert list(world.step()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("watermark", "tokens", "admitted"), [(0, 16, True), (0.1, 16, False), (0.1, 12, True), (0.2, 12, False)]
)
def test_an_admission_leaves_the_watermark_free_while_others_run(watermark: float, tokens: int, admitted: bool) -> None:
    world = World(num_blocks=10, watermark=watermark)
    world.add([*range(16)])
    world.step()
    world.add([*range(20, 20 + tokens)])
    assert ("b" in world.step()) == admitted, "four blocks are left; the watermark is a share of all ten"


def test_alone_a_request_may_use_every_block() -> None:
    world = World(num_blocks=10, watermark=0.5)
    world.add([*range(36)])
    assert world.step() == {"a": 36}
