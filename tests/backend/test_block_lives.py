"""Lives of blocks, returns of hashes, reasons of misses: counted by hand, and the same as a plain recount whatever the
engine does, and however its messages are put together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from kvxray_backend.analysis import block_lives, recent
from kvxray_backend.analysis.block_lives import BESIDE, DROPPED, NEVER, BlockLives
from kvxray_backend.analysis.block_thrash import block_thrash_finding
from kvxray_backend.analysis.hash_memory import Changes, HashMemory, Seen, keys_of
from kvxray_backend.analysis.stream_health import Place
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder

from tests.backend.lives_recount import MINUTE_NS, LivesRecount

WHY = {"never": NEVER, "dropped": DROPPED, "beside": BESIDE}
SECOND = 1_000_000_000


class LivingEngine:
    """An engine, what is told of its blocks' lives by its messages, and the recount of the same messages."""

    def __init__(self, num_blocks: int = 16, block_size: int = 4, *, is_instant: bool = False, **config) -> None:
        """is_instant: steps take no time."""
        self.clock = VirtualClock(1_000 * SECOND)
        self.recorder = Recorder(self.clock, Handover())
        model = NullModel(
            num_blocks, block_size, vocab_size=60, max_model_len=40, clock=None if is_instant else self.clock
        )
        limits = EngineConfig(max_num_seqs=4, max_num_batched_tokens=config.pop("budget", 10), **config)
        self.engine = LLMEngine(model, limits, self.recorder, self.clock)
        self.fold = BlockMap(self.engine.descriptor(), source="test", incarnation="once")
        self.lives = BlockLives(self.fold)
        self.truth = LivesRecount(block_size)
        self.added = 0

    def add(self, prompt: list[int], max_tokens: int = 1) -> str:
        self.added += 1
        name = f"r{self.added}"
        self.engine.add_request(NewRequest(name, prompt, SamplingParams(max_tokens=max_tokens)))
        return name

    def run(self, prompt: list[int], max_tokens: int = 1) -> None:
        """To its end; nobody else runs."""
        self.add(prompt, max_tokens)
        while self.engine.has_work:
            self.step()

    def step(self) -> None:
        self.engine.step()
        self.follow()

    def follow(self) -> None:
        for recorded in self.recorder.handover.take()[0]:
            made = to_message(recorded, "test", "once", hash_width=32)
            message = decode(encode(made.header, made.columns))
            self.fold.apply(message)
            self.lives.note(message)
            self.truth.happen(message)

    def compare(self) -> None:
        lives, truth, now = self.lives, self.truth, self.clock.wall_ns()
        lives.check_integrity()
        since = now - MINUTE_NS
        assert told(lives.evicted, now) == [unknown(one) for one in truth.evicted if one[0] > since]
        assert told(lives.reused, now) == [unknown(one) for one in truth.reused if one[0] > since]
        assert told(lives.gone, now) == [(t,) for t in truth.gone if t > since]
        returned = [(t, key(data)) for t, data in truth.returned if t > since]
        assert [(t, k % 2**64) for t, k in told(lives.returned, now)] == returned
        missed = [(t, WHY.get(why, why)) for t, why in truth.missed if t > since]
        assert told(lives.missed, now) == missed
        assert told(lives.tails, now) == [one for one in truth.tails if one[0] > since]
        assert told(lives.recomputed.recent, now) == [one for one in truth.recomputed if one[0] > since]
        carried = {block: key(data) for block, data in truth.carries.items()}
        assert {int(b): int(lives.key_of[b]) for b in np.flatnonzero(lives.key_of)} == carried

    def close(self) -> None:
        self.recorder.handover.close()


def told(entries: recent.Recent, now: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in entries.since(now).T.tolist()]


def unknown(entry: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in entry)


def key(data: bytes) -> int:
    return int(keys_of(data, len(data))[0])


class LivesMachine(RuleBasedStateMachine):
    """Agents that share a system prompt, aborts, resets, pauses, and a pool too small for all of them."""

    config: dict = {}

    def __init__(self) -> None:
        super().__init__()
        self.world = LivingEngine(**self.config)

    @rule(
        shared=st.integers(0, 11),
        tail=st.lists(st.integers(0, 2), min_size=1, max_size=12),
        max_tokens=st.integers(1, 15),
    )
    def add(self, shared: int, tail: list[int], max_tokens: int) -> None:
        self.world.add([*range(shared), *tail], max_tokens)

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.world.step()

    @rule(seconds=st.sampled_from([1, 20, 61]))
    def pause(self, seconds: int) -> None:
        self.world.clock.advance_ns(seconds * SECOND)

    @precondition(lambda self: self.world.added)
    @rule(back=st.integers(0, 5))
    def abort(self, back: int) -> None:
        self.world.engine.abort_request(f"r{max(1, self.world.added - back)}")

    @rule(busy=st.booleans())
    def reset(self, busy: bool) -> None:
        self.world.engine.reset_prefix_cache(reset_running_requests=busy)
        self.world.follow()

    @rule()
    def look(self) -> None:
        self.world.compare()

    def teardown(self) -> None:
        self.world.compare()
        self.world.close()


class UncachedLivesMachine(LivesMachine):
    config = {"enable_prefix_caching": False}


@pytest.mark.parametrize("settle_at", [1, 40, 32_768])
@pytest.mark.parametrize("machine", [LivesMachine, UncachedLivesMachine])
def test_what_is_told_of_lives_is_a_plain_recount_of_the_events(
    machine: type[LivesMachine], settle_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_lives, "SETTLE_AT", settle_at)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def tokens(number: int, count: int = 8) -> list[int]:
    """A prompt that shares nothing with another number's."""
    return [(number * 7 + at * (number + 1)) % 60 for at in range(count)]


def test_lifetime_and_idle_time_at_eviction_are_the_engines_own() -> None:
    world = LivingEngine(num_blocks=6, budget=64, is_instant=True)  # five usable blocks
    began = world.clock.wall_ns()
    world.run(tokens(1), max_tokens=1)  # two blocks cached, all freed at once
    world.clock.advance_ns(3 * SECOND)
    world.add(tokens(2, 16), max_tokens=1)  # four blocks: one of them was cached
    world.step()
    world.lives.settle()
    (entry,) = told(world.lives.evicted, world.clock.wall_ns())
    assert entry == (began + 3 * SECOND, 3 * SECOND, 3 * SECOND)
    world.compare()
    world.close()


def test_the_reuse_gap_counts_from_the_last_release_and_only_of_blocks_nobody_held() -> None:
    world = LivingEngine(budget=64, is_instant=True)
    world.run(tokens(1, 9))
    world.clock.advance_ns(5 * SECOND)
    world.add(tokens(1, 9), max_tokens=3)
    world.step()
    world.add(tokens(1, 9), max_tokens=3)  # hits the same blocks, which are held: no gap
    world.step()
    world.lives.settle()
    assert [gap for _, gap in told(world.lives.reused, world.clock.wall_ns())] == [5 * SECOND] * 2
    world.compare()
    world.close()


def test_reasons_of_misses_by_hand() -> None:
    world = LivingEngine(num_blocks=6, budget=64, is_instant=True)
    world.run(tokens(1, 9))  # two blocks that nobody had seen, one token beyond them
    world.clock.advance_ns(2 * SECOND)
    world.run(tokens(2, 17))  # takes all five blocks: four are new, and both of the first are evicted
    world.clock.advance_ns(4 * SECOND)
    world.run(tokens(1, 9))  # both come back four seconds later
    world.engine.reset_prefix_cache()
    world.follow()
    world.run(tokens(1, 9))  # and after a reset they are gone on purpose
    world.lives.settle()
    now = world.clock.wall_ns()
    why = [why for _, why in told(world.lives.missed, now)]
    assert why == [NEVER] * 6 + [4 * SECOND] * 2 + [DROPPED] * 2
    assert [tail for _, tail in told(world.lives.tails, now)] == [1, 1, 1, 1]
    assert len(told(world.lives.returned, now)) == 2
    world.compare()
    world.close()


def test_a_prompt_that_ends_with_its_block_computes_that_block_beside_the_cached_one() -> None:
    world = LivingEngine(budget=64, is_instant=True)
    world.run(tokens(1, 8))
    world.run(tokens(1, 8))
    world.lives.settle()
    assert [why for _, why in told(world.lives.missed, world.clock.wall_ns())] == [NEVER, NEVER, BESIDE]
    world.compare()
    world.close()


def test_what_a_request_generates_is_no_miss() -> None:
    world = LivingEngine(budget=64, is_instant=True)
    world.run(tokens(1, 4), max_tokens=12)
    world.lives.settle()
    assert len(told(world.lives.missed, world.clock.wall_ns())) == 1
    world.close()


def test_tokens_recomputed_are_those_lost_and_not_found_again() -> None:
    world = LivingEngine(num_blocks=6, budget=64, is_instant=True)
    world.add(tokens(1, 7), max_tokens=12)
    world.add(tokens(2, 7), max_tokens=12)
    while world.engine.has_work:
        world.step()
    assert world.truth.recomputed, "one must have been preempted"
    world.compare()
    world.close()


def test_under_pressure_everything_happens_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_lives, "SETTLE_AT", 300)
    world = LivingEngine(num_blocks=14)
    rng = np.random.default_rng(3)
    for _ in range(400):
        while len(world.engine.inbox) + sum(1 for _ in world.engine.scheduler.requests()) < 5:
            shared = int(rng.integers(0, 12))
            world.add(
                [*range(shared), *rng.integers(0, 4, int(rng.integers(1, 12))).tolist()], int(rng.integers(1, 14))
            )
        world.clock.advance_ns(int(rng.integers(0, SECOND)))
        world.step()
    world.compare()
    truth = world.truth
    assert min(len(told) for told in (truth.evicted, truth.reused, truth.returned, truth.recomputed)) > 5
    assert {why for _, why in truth.missed if isinstance(why, str)} >= {"never", "beside"}
    world.close()


def test_who_comes_later_knows_when_blocks_were_released_and_not_what_was_evicted_before() -> None:
    world = LivingEngine(num_blocks=6, budget=64, is_instant=True)
    world.run(tokens(1, 9))
    world.run(tokens(2, 17))
    joined = BlockLives(world.fold.copy())
    assert (joined.is_whole, joined.knows_all()) == (False, False)
    world.lives.settle()
    evicted = len(world.truth.evicted)
    world.clock.advance_ns(SECOND)
    world.lives = joined
    world.run(tokens(1, 9))
    joined.check_integrity()
    now = world.clock.wall_ns()
    assert told(joined.evicted, now) == [unknown(one) for one in world.truth.evicted[evicted:]]
    assert [why for _, why in told(joined.missed, now)] == [NEVER, NEVER]  # they were evicted before
    assert not joined.knows_evictions(now)
    assert joined.knows_evictions(now + 2 * MINUTE_NS)
    world.close()


def test_more_than_is_kept_is_cut_and_said() -> None:
    entries = recent.Recent(1, max_kept=4)
    entries.add(np.arange(1, 4) * SECOND, np.arange(3))
    assert entries.is_whole(4 * SECOND)
    entries.add(np.arange(4, 9) * SECOND, np.arange(3, 8))
    entries.check_integrity()
    assert [value for _, value in told(entries, 9 * SECOND)][-4:] == [4, 5, 6, 7]
    entries.add(np.array([9]) * SECOND, np.array([8]))
    assert not entries.is_whole(9 * SECOND)
    assert entries.is_whole(70 * SECOND)


def test_what_has_been_gone_longest_is_forgotten_first_and_it_is_said() -> None:
    memory = HashMemory(max_gone=1_000)
    for start in range(0, 8_000, 500):
        keys = np.arange(start + 1, start + 501, dtype=np.uint64)
        t_ns, yes, no = np.full(500, start + 1), np.ones(500, bool), np.zeros(500, bool)
        memory.note(Changes(keys, t_ns, yes, yes))
        memory.note(Changes(keys, t_ns, no, yes))
        memory.check_integrity()
    again = np.array([1, 8_000], np.uint64)
    told_of = memory.note(Changes(again, np.full(2, 9_000), np.ones(2, bool), np.ones(2, bool)))
    assert told_of.seen.tolist() == [Seen.never, Seen.evicted]
    assert told_of.gone_ns.tolist()[1] == 7_501
    assert 1 < memory.forgotten_ns < 7_501


def test_what_comes_back_again_and_again_is_a_finding_that_names_it() -> None:
    world = LivingEngine(num_blocks=6, budget=64, is_instant=True)
    place = Place("engine", 1, 0, world.clock.wall_ns())
    for _ in range(3):
        for number in (1, 2):
            world.run(tokens(number, 17))
            world.clock.advance_ns(SECOND)
    place = replace(place, t_ns=world.clock.wall_ns())
    found = block_thrash_finding(place, world.fold, world.lives)
    assert found is not None
    evicted, returned = len(world.truth.gone), len(world.truth.returned)
    assert found.numbers == {"blocks": 8, "readmissions": returned, "evictions": evicted}
    assert (found.kind, found.severity, found.certainty) == ("thrash", "warning", "exact")
    carried = {data.hex() for data in world.truth.carries.values()}
    assert set(found.subjects.hashes) == carried
    assert found.subjects.blocks == tuple(sorted(world.truth.carries))
    later = replace(place, t_ns=place.t_ns + MINUTE_NS + SECOND)
    assert block_thrash_finding(later, world.fold, world.lives) is None
    world.close()
