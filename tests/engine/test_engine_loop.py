"""The thread that steps the engine: works while there is work, rests while there is none, and says when it fails."""

import threading

import pytest
from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.step_batch import SamplingParams

from tests.engine.openai_rig import until


class Listening:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.told = 0

    def take(self, outputs: list[RequestOutput]) -> None:
        self.told += 1
        for output in outputs:
            self.tokens.setdefault(output.request_id, []).extend(output.new_token_ids)


@pytest.fixture
def heard():
    return Listening()


@pytest.fixture
def loop(heard):
    loop = EngineLoop(LLMEngine(NullModel(65)), [heard])
    yield loop
    loop.close()


def test_requests_are_answered_as_they_come(loop, heard) -> None:
    loop.start()
    for name in ("a", "b"):
        loop.engine.add_request(NewRequest(name, [1, 2, 3], SamplingParams(max_tokens=7)))
        until(lambda name=name: len(heard.tokens.get(name, [])) == 7)
    assert not loop.engine.has_work


def test_without_work_it_hardly_turns(loop, heard) -> None:
    loop.start()
    until(lambda: heard.told > 2)
    assert loop.engine.step_count == 0, "nothing to do is no step"


def test_closing_ends_it_in_the_middle_of_work(loop) -> None:
    loop.start()
    loop.engine.add_request(NewRequest("long", [1], SamplingParams(max_tokens=1000, ignore_eos=True)))
    until(lambda: loop.engine.step_count > 3)
    loop.close()
    assert not loop.alive
    loop.engine.check_integrity()


def test_a_step_that_raises_ends_it_and_is_told_once(heard, caplog) -> None:
    failed = threading.Event()
    engine = LLMEngine(NullModel(65))
    loop = EngineLoop(engine, [heard], failed.set)

    def fail() -> None:
        raise RuntimeError("a law is broken")

    engine.scheduler.schedule = fail
    loop.start()
    engine.add_request(NewRequest("a", [1]))
    assert failed.wait(10)
    until(lambda: not loop.alive)
    assert "stands still" in caplog.text
    loop.close()
