"""Lives of blocks, returns of hashes, reasons of misses: counted by hand, and the same as a plain recount whatever the
engine does, and however its messages are put together.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from kvxray_backend.analysis import block_lives, recent
from kvxray_backend.analysis.block_lives import BESIDE, DROPPED, NEVER, BlockLives
from kvxray_backend.analysis.hash_memory import keys_of
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

    def __init__(self, num_blocks: int = 16, block_size: int = 4, **config) -> None:
        self.clock = VirtualClock(1_000 * SECOND)
        self.recorder = Recorder(self.clock, Handover())
        model = NullModel(num_blocks, block_size, vocab_size=60, max_model_len=40, clock=self.clock)
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
            max_examples=10, stateful_step_count=100, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
