"""With a model that computes: neither prefix caching nor chunks, preemption or company change a token."""

import pytest
import torch
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.model_loading import load_model
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.waiting_line import SchedulingPolicy

SYSTEM_PROMPT = "You answer in one short sentence. Tools: search, read_file, run_sql. Numbers carry their unit. "
QUESTIONS = [
    "Why is the sky blue?",
    "Sum of 2 and 3",
    "A plan for Copenhagen, please: two days, by train.",
    "Tea or coffee?",
]
ROOMY = 257


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Run:
    """All questions through one engine, first half at once, the rest two steps later; then whatever they became."""

    def __init__(self, num_blocks: int = ROOMY, temperature: float = 0.0, one_by_one: bool = False, **config) -> None:
        model, tokenizer = load_model("tiny", num_blocks, block_size=8)
        self.engine = LLMEngine(model, EngineConfig(**config), clock=VirtualClock())
        self.answers: dict[str, list[int]] = {}
        for turn in range(2):
            for number, question in enumerate(QUESTIONS * 2):
                name = f"{turn}.{number}"
                prompt = tokenizer.encode(SYSTEM_PROMPT + question + "!" * turn)
                # Its random numbers follow from its seed, so that equal questions still differ.
                sampling = SamplingParams(temperature, 0.9, seed=number, max_tokens=30, ignore_eos=True)
                self.engine.add_request(NewRequest(name, prompt, sampling, priority=-number % 3))
                if one_by_one:
                    self.finish()
                elif number == 3:
                    self.step(2)
            self.finish()
        assert self.engine.pool.ref_sum == 0

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            for output in self.engine.step():
                self.answers.setdefault(output.request_id, []).extend(output.new_token_ids)
            self.engine.check_integrity()

    def finish(self) -> None:
        while self.engine.has_work:
            self.step()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_tokens_are_the_same_whatever_the_engine_does(temperature: float) -> None:
    alone = Run(one_by_one=True, enable_prefix_caching=False, temperature=temperature)
    assert len(alone.answers) == 16
    assert all(len(answer) == 30 for answer in alone.answers.values())
    assert len({tuple(answer) for answer in alone.answers.values()}) > 4, (
        "a model that always says the same proves little"
    )

    cached = Run(temperature=temperature)
    assert cached.engine.prefix_cache.stats.hit_tokens > 1000
    assert cached.answers == alone.answers, "batched and with prefix caching"

    chunked = Run(max_num_batched_tokens=17, temperature=temperature)
    assert chunked.answers == alone.answers, "prefilled in chunks"

    pressed = Run(num_blocks=40, temperature=temperature)
    assert pressed.engine.scheduler.num_preemptions > 2
    assert pressed.answers == alone.answers, "preempted and computed again"

    urgent = Run(num_blocks=40, policy=SchedulingPolicy.priority, temperature=temperature)
    assert urgent.engine.scheduler.num_preemptions > 2
    assert urgent.answers == alone.answers, "preempted by priority, some in the step that planned them"

    uncached = Run(num_blocks=49, enable_prefix_caching=False, temperature=temperature)
    assert uncached.engine.scheduler.num_preemptions > 2
    assert uncached.answers == alone.answers, "preempted without a cache to help"


def test_requests_that_arrive_together_share_what_is_computed_in_that_very_step() -> None:
    model, tokenizer = load_model("tiny", ROOMY, block_size=8)
    prompt = tokenizer.encode(SYSTEM_PROMPT)

    def answers(enable_prefix_caching: bool) -> list[int]:
        engine = LLMEngine(model, EngineConfig(enable_prefix_caching=enable_prefix_caching), clock=VirtualClock())
        for name in ("a", "b"):
            engine.add_request(NewRequest(name, prompt, SamplingParams(max_tokens=8, ignore_eos=True)))
        tokens = [token for _ in range(8) for output in engine.step() for token in output.new_token_ids]
        hit = engine.prefix_cache.stats.hit_tokens
        assert hit == (len(prompt) - 1) // 8 * 8 * enable_prefix_caching
        return tokens

    assert answers(True) == answers(False)
