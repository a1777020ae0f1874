"""The same text whatever the engine does, caching, chunks, preemption, company; and the text is transformers'.

Greedy and in float32, on small models made here (Llama, Qwen2, Qwen3) and on SmolLM2.
"""

from dataclasses import dataclass

import pytest
import torch
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import OpenModel, open_model
from kvxray_engine.model_store import fetch_smollm2
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams, StepModel
from transformers import AutoModelForCausalLM

from tests.engine.model_peer import greedy, transformers_twin
from tests.engine.small_hf import write_folder

BLOCK = 8
ROOMY = 200
SHARED = "You are one of several agents who share a cache. The blocks of this prompt hold the same for all of you. "
QUESTIONS = ("Which block is free?", "What does the cache hold?", "Tea or coffee?", "Name three primes, then stop.")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class Outcome:
    """What came of a run: tokens by request, and what the engine had to do for it."""

    answers: dict[str, list[int]]
    hit_tokens: int
    preemptions: int
    steps: int


def run(model: StepModel, prompts: list[list[int]], max_tokens: int, **config) -> Outcome:
    """All prompts at once, and then again, so that the second round finds the blocks of the first."""
    engine = LLMEngine(model, EngineConfig(**config), clock=VirtualClock())
    answers: dict[str, list[int]] = {}
    for round_ in range(2):
        for number, prompt in enumerate(prompts):
            sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
            engine.add_request(NewRequest(f"{round_}.{number}", prompt, sampling))
        while engine.has_work:
            for output in engine.step():
                answers.setdefault(output.request_id, []).extend(output.new_token_ids)
            engine.check_integrity()
    assert engine.pool.ref_sum == 0
    return Outcome(answers, engine.prefix_cache.stats.hit_tokens, engine.scheduler.num_preemptions, engine.step_count)


def tight_pool(prompts: list[list[int]], max_tokens: int, **config) -> int:
    """Blocks so few that somebody is preempted: found without computing anything, since who fits does not depend on
    what is said."""
    longest = -(-(max(map(len, prompts)) + max_tokens) // BLOCK)
    for num_blocks in range(longest + 2, longest * len(prompts)):
        if run(NullModel(num_blocks, BLOCK), prompts, max_tokens, **config).preemptions:
            return num_blocks
    raise AssertionError("nobody is ever preempted")


class Judge:
    """Holds an engine's tokens to the expected ones, in every way to run them."""

    def __init__(
        self, opened: OpenModel, prompts: list[list[int]], expected: list[list[int]], cache: str = "float32"
    ) -> None:
        assert len({tuple(tokens) for tokens in expected}) == len(prompts), "a model that repeats itself proves little"
        self.opened = opened
        self.cache = cache
        self.prompts = prompts
        self.max_tokens = len(expected[0])
        self.wanted = {f"{round_}.{number}": tokens for round_ in range(2) for number, tokens in enumerate(expected)}

    def run(self, num_blocks: int = ROOMY, **config) -> Outcome:
        model = self.opened.with_cache(num_blocks, BLOCK, self.cache)
        outcome = run(model, self.prompts, self.max_tokens, **config)
        assert outcome.answers == self.wanted, f"with {num_blocks} blocks and {config}"
        return outcome

    def hold_alone(self) -> None:
        assert self.run(enable_prefix_caching=False, max_num_seqs=1).hit_tokens == 0

    def hold_cached(self) -> None:
        assert self.run().hit_tokens > sum(map(len, self.prompts)) // 2

    def hold_chunked(self) -> None:
        self.run(max_num_batched_tokens=13, enable_prefix_caching=False)

    def hold_preempted(self, caching: bool) -> None:
        config = {"enable_prefix_caching": caching, "max_num_batched_tokens": 64}
        assert self.run(tight_pool(self.prompts, self.max_tokens, **config), **config).preemptions > 0


@pytest.mark.parametrize("family", ["llama", "llama3", "qwen2", "qwen3"])
def test_a_small_model_says_the_same_whatever_the_engine_does(tmp_path, family: str) -> None:
    folder = write_folder(tmp_path / family, family)
    opened = open_model(str(folder))
    twin = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = [opened.tokenizer.encode(SHARED + question, add_special_tokens=True) for question in QUESTIONS]
    judge = Judge(opened, prompts, [greedy(twin, prompt, 40) for prompt in prompts])
    judge.hold_alone()
    judge.hold_cached()
    judge.hold_chunked()
    judge.hold_preempted(caching=True)
    judge.hold_preempted(caching=False)


@pytest.mark.parametrize("cache", ["fp8_e4m3", "int8", "int4"])
def test_over_a_quantised_cache_it_says_the_same_whatever_the_engine_does(tmp_path, cache: str) -> None:
    """A shared or recomputed block is as coarse as one's own: what is attended over is always what was stored."""
    opened = open_model(str(write_folder(tmp_path / "llama", "llama")))
    prompts = [opened.tokenizer.encode(SHARED + question, add_special_tokens=True) for question in QUESTIONS]
    config = {"enable_prefix_caching": False, "max_num_seqs": 1}
    alone = run(opened.with_cache(ROOMY, BLOCK, cache), prompts, 24, **config)
    judge = Judge(opened, prompts, [alone.answers[f"0.{number}"] for number in range(len(prompts))], cache)
    judge.hold_alone()
    judge.hold_cached()
    judge.hold_chunked()
    judge.hold_preempted(caching=True)
    judge.hold_preempted(caching=False)


@pytest.mark.model
def test_smollm2_says_the_same_whatever_the_engine_does() -> None:
    try:
        fetch_smollm2()
    except UserError as error:
        pytest.skip(f"SmolLM2 cannot be had on this machine: {error}")
    opened = open_model("smollm2")
    prompts = [
        opened.tokenizer.apply_chat_template(
            [{"role": "system", "content": SHARED}, {"role": "user", "content": question}]
        )
        for question in QUESTIONS[:2]
    ]
    twin = transformers_twin(opened.model)
    judge = Judge(opened, prompts, [greedy(twin, prompt, 12) for prompt in prompts])
    judge.hold_cached()
    judge.hold_chunked()
    judge.hold_preempted(caching=True)
