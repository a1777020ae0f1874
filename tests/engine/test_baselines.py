"""Reservation before paging: whole ranges, taken once, given back whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.baselines import Allocation, BuddyArena, FixedArena
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams


def make_engine(allocation: Allocation, num_blocks: int = 65, max_model_len: int = 64) -> LLMEngine:
    clock = VirtualClock()
    model = NullModel(num_blocks, 4, vocab_size=100, max_model_len=max_model_len, clock=clock)
    return LLMEngine(model, EngineConfig(allocation=allocation), clock=clock)


def add(engine: LLMEngine, name: str, prompt: int, max_tokens: int) -> None:
    engine.add_request(NewRequest(name, [1] * prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True)))


def tables(engine: LLMEngine) -> dict[str, list[int]]:
    return {request.request_id: request.block_table for request in engine.scheduler.running}


def finish(engine: LLMEngine) -> None:
    while engine.has_work:
        engine.step()
        engine.check_integrity()


def test_contiguous_reserves_the_longest_sequence_for_everybody() -> None:
    engine = make_engine(Allocation.contiguous, num_blocks=40)
    for name in "abc":
        add(engine, name, prompt=5, max_tokens=3)
    engine.step()
    held = tables(engine)
    assert sorted(held.values()) == [[*range(1, 17)], [*range(17, 33)]], "seven of 39 blocks are left over for nobody"
    assert len(engine.scheduler.waiting) == 1
    finish(engine)
    assert engine.manager.slot_use.waste_ratio == 1 - 7 / 64


def test_buddy_reserves_the_next_power_of_two() -> None:
    engine = make_engine(Allocation.buddy)
    add(engine, "a", prompt=9, max_tokens=4)  # 13 tokens, 4 blocks
    add(engine, "b", prompt=10, max_tokens=8)  # 18 tokens, 5 blocks: 8
    engine.step()
    assert {name: len(table) for name, table in tables(engine).items()} == {"a": 4, "b": 8}
    finish(engine)
    assert engine.manager.slot_use.waste_ratio == 1 - (12 + 17) / (16 + 32)


@pytest.mark.parametrize("allocation", Allocation)
def test_the_tokens_are_the_same_however_memory_is_reserved(allocation: Allocation) -> None:
    engine = make_engine(allocation)
    for number in range(6):
        add(engine, f"r{number}", prompt=3 + 7 * number, max_tokens=5)
    tokens: dict[str, list[int]] = {}
    while engine.has_work:
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
        engine.check_integrity()
    alone = make_engine(Allocation.paged)
    for number in range(6):
        add(alone, f"r{number}", prompt=3 + 7 * number, max_tokens=5)
        answer = []
        while alone.has_work:
            answer += [token for output in alone.step() for token in output.new_token_ids]
        assert tokens[f"r{number}"] == answer


@pytest.mark.parametrize("allocation", [Allocation.contiguous, Allocation.buddy])
def test_a_range_is_never_shared_and_nobody_is_preempted(allocation: Allocation) -> None:
    engine = make_engine(allocation, num_blocks=40)
    for number in range(8):
        add(engine, f"r{number}", prompt=20, max_tokens=30)
    finish(engine)
    assert (engine.scheduler.num_preemptions, engine.prefix_cache.stats.hit_tokens) == (0, 0)
    assert engine.pool.ref_sum == 0


def test_a_request_that_asks_for_more_than_the_longest_gets_the_longest() -> None:
    engine = make_engine(Allocation.contiguous, num_blocks=17)
    add(engine, "a", prompt=60, max_tokens=1000)
    finish(engine)
    assert engine.manager.slot_use.written == 63


def test_a_pool_without_a_large_enough_power_of_two_is_refused() -> None:
    with pytest.raises(UserError, match="16 blocks in one range for a sequence of 40 tokens, and its largest has 8"):
        make_engine(Allocation.buddy, num_blocks=16, max_model_len=40)


def test_fixed_ranges_lie_side_by_side() -> None:
    arena = FixedArena(num_blocks=10, size=3)
    starts = {arena.reserve(2) for _ in range(3)}
    assert starts == {0, 3, 6}
    assert not arena.can_reserve(1)
    arena.release(3, 3)
    assert arena.reserve(3) == 3


def test_buddies_join_again() -> None:
    arena = BuddyArena(16)
    starts = [arena.reserve(4) for _ in range(4)]
    assert starts == [0, 4, 8, 12]
    assert not arena.can_reserve(1)
    arena.release(0, 4)
    arena.release(8, 4)
    assert not arena.can_reserve(8), "eight are free, but not as one range: this is external fragmentation"
    arena.release(4, 4)
    assert arena.reserve(7) == 0


@given(
    num_blocks=st.integers(1, 100),
    wishes=st.lists(st.tuples(st.integers(1, 40), st.booleans(), st.integers(0, 9)), max_size=60),
)
def test_buddy_ranges_never_overlap_and_all_come_back(num_blocks: int, wishes: list[tuple[int, bool, int]]) -> None:
    arena = BuddyArena(num_blocks)
    held: list[tuple[int, int]] = []
    for blocks, gives_back, which in wishes:
        if gives_back and held:
            arena.release(*held.pop(which % len(held)))
        elif arena.can_reserve(blocks):
            held.append((arena.reserve(blocks), arena.size_for(blocks)))
        taken = [block for start, size in held for block in range(start, start + size)]
        assert len(taken) == len(set(taken))
        assert not taken or max(taken) < num_blocks
        assert all(start % size == 0 for start, size in held)
    for one in held:
        arena.release(*one)
    assert [arena.can_reserve(arena.largest), arena.reserve(arena.largest)] == [True, 0]
