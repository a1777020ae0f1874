"""With a model that computes: faults that leave the memory of living requests alone do not change a token."""

from __future__ import annotations

import pytest
import torch
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.faults.fault import FAULTS, Fault
from kvxray_engine.model_loading import load_model
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams

SYSTEM_PROMPT = "You answer in one short sentence. Numbers carry their unit. "
HARMFUL = {"ref-underflow", "stale-hash"}
HARMLESS = [name for name in FAULTS if name not in HARMFUL and "messages" not in name and name != "frozen-publisher"]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def answers(*faults: Fault) -> tuple[dict[str, list[int]], LLMEngine]:
    """Four questions in each of five rounds through a pool short of room, the same again; one a round is cancelled."""
    model, tokenizer = load_model("tiny", 24, block_size=8)
    engine = LLMEngine(model, EngineConfig(max_num_seqs=4, faults=faults), clock=VirtualClock())
    told: dict[str, list[int]] = {}
    for turn in range(5):
        for number, question in enumerate(("Why is the sky blue?", "Sum of 2 and 3", "Tea or coffee?", "Which way?")):
            prompt = tokenizer.encode(SYSTEM_PROMPT + question * (1 + turn % 3))
            sampling = SamplingParams(max_tokens=12, ignore_eos=True)
            engine.add_request(NewRequest(f"{turn}.{number}", prompt, sampling))
        while engine.has_work:
            for output in engine.step():
                told.setdefault(output.request_id, []).extend(output.new_token_ids)
                if output.request_id == f"{turn}.3" and len(told[output.request_id]) == 5:
                    engine.abort_request(output.request_id)
    return told, engine


@pytest.fixture(scope="module")
def sound() -> dict[str, list[int]]:
    return answers()[0]


@pytest.mark.parametrize("names", [*([name] for name in HARMLESS), HARMLESS], ids="+".join)
def test_every_answer_is_what_it_would_have_been(names: list[str], sound: dict[str, list[int]]) -> None:
    told, engine = answers(*(Fault(name, 0.7) for name in names))
    assert told == sound
    assert names == ["double-free"] or engine.manager.leaked_holds, "the fault did not happen"


def test_what_a_stale_hash_is_hit_for_is_wrong_and_the_rest_is_right(sound: dict[str, list[int]]) -> None:
    """The page says of this fault that it touches what others read."""
    told, _ = answers(Fault("stale-hash", 1.0))
    wrong = [name for name, answer in sound.items() if told[name] != answer]
    assert 0 < len(wrong) < len(sound)
