"""Tokens go from the engine to whoever awaits them, in order and none twice; whoever lets go holds nothing."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.server.async_engine import Answer, AsyncEngine, EngineBusy
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence

VOCABULARY = 50


class World:
    """An engine stepped by hand in the event loop's own thread; call in a running loop."""

    def __init__(self, num_blocks: int = 20, max_open: int = 8, **config) -> None:
        self.engine = LLMEngine(
            NullModel(num_blocks, 4, VOCABULARY, max_model_len=60), EngineConfig(**config), clock=VirtualClock()
        )
        self.front = AsyncEngine(self.engine, max_open)
        self.loop = EngineLoop(self.engine, [self.front])
        self.opened = 0

    def open(self, sequences: int = 1, max_tokens: int = 5) -> tuple[Answer, list[str]]:
        names = [f"r{self.opened}-{index}" for index in range(sequences)]
        self.opened += 1
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        return self.front.open([NewRequest(name, [1] * 9, sampling) for name in names]), names

    async def step(self) -> None:
        self.loop.step()
        self.engine.check_integrity()
        self.front.check_integrity()
        await asyncio.sleep(0)  # the tokens handed over are delivered

    def expected(self, name: str, max_tokens: int) -> list[int]:
        model = self.engine.model
        assert isinstance(model, NullModel)
        return [
            model._token(ScheduledSequence(name, [], 0, [], SamplingParams(), True, position))
            for position in range(max_tokens)
        ]

    def is_idle(self) -> bool:
        return not self.engine.has_work and self.engine.pool.ref_sum == 0 and self.front.num_open == 0


class Reader:
    """Reads an answer in a task of its own, as the API does."""

    def __init__(self, answer: Answer, names: list[str]) -> None:
        self.answer = answer
        self.tokens: list[list[int]] = [[] for _ in names]
        self.reasons: list[FinishReason | None] = [None] * len(names)
        self.names = names
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for index, tokens in self.answer:
            assert self.reasons[index] is None, "nothing follows the end"
            self.tokens[index].extend(tokens.token_ids)
            self.reasons[index] = tokens.finish_reason


async def settle() -> None:
    """Lets every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(1, 3), st.integers(1, 12)),
        st.tuples(st.just("step"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("close"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("finish"), st.integers(0, 5), st.integers(0, 2)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_whatever_clients_do_tokens_come_in_order_and_nothing_stays_behind(actions: list[tuple]) -> None:
    asyncio.run(play(actions))


async def play(actions: list[tuple]) -> None:
    world = World()
    readers: list[tuple[Reader, int]] = []
    for what, first, second in actions:
        if what == "open":
            try:
                answer, names = world.open(first, second)
            except EngineBusy:
                assert world.front.num_open + first > 8
                continue
            readers.append((Reader(answer, names), second))
        elif what == "step":
            for _ in range(first):
                await world.step()
        elif readers:
            reader, _ = readers[first % len(readers)]
            if what == "close":
                reader.task.cancel()
                reader.answer.close()
            else:
                reader.answer.finish(second % len(reader.names))
        await settle()
    for reader, max_tokens in readers:
        for name, tokens in zip(reader.names, reader.tokens, strict=True):
            assert tokens == world.expected(name, max_tokens)[: len(tokens)]
    for reader, _ in readers:
        reader.task.cancel()
        reader.answer.close()
    await settle()
    for _ in range(2):
        await world.step()
    assert world.is_idle()


def test_an_answer_ends_when_all_its_sequences_have() -> None:
    async def story() -> None:
        world = World()
        reader = Reader(*world.open(sequences=2, max_tokens=3))
        for _ in range(3):
            await world.step()
        await asyncio.wait_for(reader.task, 5)
        assert reader.tokens == [world.expected(name, 3) for name in reader.names]
        assert reader.reasons == [FinishReason.length, FinishReason.length]
        assert world.is_idle()

    asyncio.run(story())


def test_a_sequence_let_go_counts_as_finished_and_the_others_go_on() -> None:
    async def story() -> None:
        world = World()
        reader = Reader(*world.open(sequences=2, max_tokens=6))
        await world.step()
        await settle()
        reader.answer.finish(0)
        outputs = world.engine.step()
        assert [output.finish_reason for output in outputs if output.request_id == reader.names[0]] == [
            FinishReason.stop
        ]
        world.front.take(outputs)
        for _ in range(4):
            await world.step()
        await asyncio.wait_for(reader.task, 5)
        assert [len(tokens) for tokens in reader.tokens] == [1, 6]

    asyncio.run(story())


def test_one_that_cannot_run_takes_none_of_its_company_with_it_into_the_engine() -> None:
    async def story() -> None:
        world = World()
        good, bad = NewRequest("good", [1, 2]), NewRequest("bad", [VOCABULARY])
        with pytest.raises(UserError, match="Token ids"):
            world.front.open([good, bad])
        await world.step()
        assert world.is_idle()

    asyncio.run(story())


def test_once_closed_nobody_waits_and_nobody_comes_in() -> None:
    async def story() -> None:
        world = World()
        reader = Reader(*world.open(max_tokens=6))
        await world.step()
        world.front.close("Gone.")
        await asyncio.wait_for(reader.task, 5)
        assert reader.reasons == [FinishReason.error]
        with pytest.raises(EngineBusy, match=r"Gone\."):
            world.open()

    asyncio.run(story())


def test_what_was_cached_is_told_as_it_was_at_the_first_admission() -> None:
    async def story() -> None:
        world = World(num_blocks=9)
        told: dict[str, set[int]] = {}
        answers = [world.open(max_tokens=20) for _ in range(3)]

        async def read(answer: Answer, name: str) -> None:
            async for _, tokens in answer:
                told.setdefault(name, set()).add(tokens.num_cached_tokens)

        tasks = [asyncio.create_task(read(answer, names[0])) for answer, names in answers]
        for _ in range(200):
            await world.step()
        await asyncio.gather(*tasks)
        assert world.engine.scheduler.num_preemptions > 0
        assert all(len(counts) == 1 for counts in told.values()), "a resumed request does not change its count"
        assert {max(counts) for counts in told.values()} == {0, 8}

    asyncio.run(story())
