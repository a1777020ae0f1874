"""The model runner with the tiny model: whatever the batch, the chunks and the blocks, the tokens are the same."""

import random

import pytest
import torch
from kvxray_engine.model_loading import load_model
from kvxray_engine.models.llama import LlamaModel
from kvxray_engine.step_batch import NOT_SAMPLED, SamplingParams, ScheduledSequence, StepModel

from tests.engine.model_driver import Driver, generate, generate_alone
from tests.engine.model_peer import greedy, transformers_twin

GREEDY = SamplingParams(max_tokens=24)
WARM = SamplingParams(max_tokens=24, temperature=0.9, top_p=0.95, seed=7)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def runner():
    """A tiny model whose cache is poisoned: reading what nobody wrote would show."""
    runner, _ = load_model("tiny", num_blocks=400, block_size=16)
    runner.backend.key_cache.fill_(torch.nan)
    runner.backend.value_cache.fill_(torch.nan)
    return runner


@pytest.fixture(scope="module")
def prompts():
    """Prompts of ragged lengths: one token, block boundaries, several blocks."""
    rng = random.Random(3)
    return [[rng.randrange(256) for _ in range(n)] for n in (1, 15, 16, 17, 40, 90, 131)]


def test_greedy_tokens_and_scores_equal_those_of_transformers(runner, prompts):
    twin = transformers_twin(runner.model)
    expected = [greedy(twin, prompt, GREEDY.max_tokens) for prompt in prompts]
    assert generate_alone(runner, prompts, GREEDY) == expected
    assert generate(runner, prompts, GREEDY) == expected
    with torch.inference_mode():
        scores = twin(torch.tensor([prompts[5]])).logits[0]
    torch.testing.assert_close(logits_of(runner, prompts[5]), scores, atol=1e-4, rtol=0)  # scores are of size 10


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_batch_gives_what_each_request_gives_alone(runner, prompts, sampling):
    assert generate(runner, prompts, sampling, chunk=20) == generate_alone(runner, prompts, sampling)


@pytest.mark.parametrize("chunk", [1, 7, 16, 33])
def test_prefill_in_chunks_gives_what_a_whole_one_gives(runner, prompts, chunk):
    assert generate(runner, prompts, GREEDY, chunk) == generate(runner, prompts, GREEDY)


@pytest.mark.parametrize("block_size", [8, 32])
def test_the_block_size_changes_nothing(runner, prompts, block_size):
    other, _ = load_model("tiny", num_blocks=400, block_size=block_size)
    assert generate(other, prompts, GREEDY) == generate(runner, prompts, GREEDY)


def test_a_request_that_comes_later_joins_without_a_trace(runner, prompts):
    driver = Driver(runner, chunk=32)
    first = driver.add(prompts[4], WARM)
    for _ in range(5):
        driver.step()
    second = driver.add(prompts[6], WARM)
    driver.run()
    assert [first.output, second.output] == generate_alone(runner, [prompts[4], prompts[6]], WARM)


def test_a_shared_prefix_gives_what_a_computed_one_gives(runner, prompts):
    prefix = prompts[6][:48]
    driver = Driver(runner)
    owner = driver.add([*prefix, 1, 2, 3], GREEDY)
    driver.step()
    sharer = driver.add([*prefix, 9, 8], GREEDY, block_table=owner.block_table[:3], computed=48)
    driver.run()
    assert [owner.output, sharer.output] == generate_alone(runner, [[*prefix, 1, 2, 3], [*prefix, 9, 8]], GREEDY)


def test_a_preempted_request_goes_on_as_if_nothing_had_happened(runner, prompts):
    driver = Driver(runner)
    request = driver.add(prompts[4], WARM)
    for _ in range(9):
        driver.step()
    assert 0 < len(request.output) < WARM.max_tokens
    request.computed = 0  # its blocks are lost: prompt and output are computed again
    request.block_table = [driver.free.pop() for _ in request.block_table]
    driver.run()
    assert [request.output] == generate_alone(runner, [prompts[4]], WARM)


def test_output_varies_from_token_to_token_and_from_prompt_to_prompt(runner, prompts):
    outputs = generate(runner, prompts, GREEDY)
    assert len({tuple(output) for output in outputs}) == len(prompts)
    assert min(len(set(output)) for output in outputs) > 5


def test_two_models_of_one_seed_are_the_same(runner, prompts):
    again, _ = load_model("tiny", num_blocks=400)
    assert generate(again, prompts, WARM) == generate(runner, prompts, WARM)


def test_only_sequences_that_sample_get_a_token(runner):
    def sequence(name: str, token_ids: list[int], block: int, samples: bool) -> ScheduledSequence:
        return ScheduledSequence(name, token_ids, 0, [block], GREEDY, samples, 0)

    assert runner.execute([]) == []
    assert runner.execute([sequence("a", [1, 2], 1, False)]) == [NOT_SAMPLED]
    whole, decode = sequence("b", [3, 4, 5], 2, True), sequence("c", [6], 3, True)
    mixed = runner.execute([whole, sequence("a", [1, 2], 1, False), decode])
    assert mixed == [*runner.execute([whole]), NOT_SAMPLED, *runner.execute([decode])]


def test_a_sequence_that_would_write_to_the_null_block_or_too_far_is_refused(runner):
    with pytest.raises(AssertionError, match="null block"):
        runner.execute([ScheduledSequence("a", [1], 16, [5, 0], GREEDY, True, 0)])
    with pytest.raises(AssertionError, match="longer than the model"):
        runner.execute([ScheduledSequence("a", [1], 2048, list(range(1, 130)), GREEDY, True, 0)])


def test_a_runner_says_what_the_scheduler_needs_to_know(runner):
    model: StepModel = runner
    assert (model.name, model.vocab_size, model.max_model_len) == ("tiny", 272, 2048)
    assert (model.block_size, model.num_blocks, model.kv_cache_dtype) == (16, 400, "float32")
    assert model.bytes_per_block == 2 * 2 * 16 * 2 * 16 * 4
    assert len(model.eos_token_ids) == 1


def test_bfloat16_stays_close_to_float32(prompts):
    """Closeness only: near ties change which token comes, so tokens are never compared across dtypes."""
    scores = {}
    for dtype in ("float32", "bfloat16"):
        runner, _ = load_model("tiny", num_blocks=50, dtype=dtype)
        assert runner.kv_cache_dtype == dtype
        scores[dtype] = logits_of(runner, prompts[4]).float()
    error = (scores["bfloat16"] - scores["float32"]).pow(2).mean().sqrt()
    assert error < 0.05 * scores["float32"].pow(2).mean().sqrt()


@torch.inference_mode()
def logits_of(runner, prompt: list[int]) -> torch.Tensor:
    """The scores [tokens, vocab_size] after every token of a prompt."""
    model: LlamaModel = runner.model
    tokens = torch.arange(len(prompt))
    blocks = list(range(1, 1 + -(-len(prompt) // runner.block_size)))
    metadata = runner.backend.build_metadata([len(prompt)], [len(prompt)], [blocks])
    slots = tokens + runner.block_size
    return model.logits(model.forward(torch.tensor(prompt), tokens, slots, metadata, runner.backend))
