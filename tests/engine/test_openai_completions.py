"""/v1/completions as the official client sees it: text, streams, choices, stops, seeds, log-probabilities, counts."""

import math

import openai
import pytest

from tests.engine.openai_rig import MODEL, Rig

PROMPT = "The cache holds the block that the agents share. "


@pytest.fixture(scope="module")
def rig():
    with Rig() as rig:
        yield rig


@pytest.fixture(scope="module")
def client(rig):
    with rig.client() as client:
        yield client


def complete(client: openai.OpenAI, **wanted):
    wanted = {"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 12} | wanted
    return client.completions.create(**wanted)


def streamed(client: openai.OpenAI, **wanted) -> dict[int, str]:
    """The text of each choice, from a stream."""
    texts: dict[int, str] = {}
    for chunk in complete(client, stream=True, **wanted):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    return texts


def test_a_completion_has_text_reason_and_counts(rig, client) -> None:
    answer = complete(client)
    assert answer.object == "text_completion"
    assert answer.model == MODEL
    assert answer.id.startswith("cmpl-")
    (choice,) = answer.choices
    assert choice.text
    assert choice.finish_reason == "length"
    prompt_tokens = len(rig.tokenizer.encode(PROMPT))
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt_tokens, 12)
    assert usage.total_tokens == prompt_tokens + 12


def test_a_prompt_seen_before_comes_from_the_cache(client) -> None:
    prompt = "Seen twice, so that the second time its full blocks are there. " * 2
    cached = [complete(client, prompt=prompt).usage.prompt_tokens_details.cached_tokens for _ in range(2)]
    assert cached == [0, (len(prompt) - 1) // 16 * 16]


def test_a_salt_keeps_caches_apart(client) -> None:
    prompt = "Shared by nobody who has another salt, although the tokens are the same."
    cached = [
        complete(client, prompt=prompt, extra_body={"cache_salt": salt}).usage.prompt_tokens_details.cached_tokens
        for salt in ("a", "b", "a")
    ]
    assert cached == [0, 0, (len(prompt) - 1) // 16 * 16]


def test_streamed_text_is_the_text_and_usage_comes_last(client) -> None:
    whole = complete(client)
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "length"
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 12
    assert len({chunk.id for chunk in chunks}) == 1


def test_tokens_are_a_prompt_too_and_several_prompts_are_answered_in_order(rig, client) -> None:
    tokens = rig.tokenizer.encode(PROMPT)
    alone = [complete(client, prompt=prompt).choices[0].text for prompt in (PROMPT, "Another one")]
    assert complete(client, prompt=tokens).choices[0].text == alone[0]
    both = complete(client, prompt=[PROMPT, "Another one"])
    assert [choice.text for choice in both.choices] == alone
    assert [choice.index for choice in both.choices] == [0, 1]
    assert both.usage.prompt_tokens == len(tokens) + len("Another one")
    as_tokens = complete(client, prompt=[tokens, rig.tokenizer.encode("Another one")])
    assert [choice.text for choice in as_tokens.choices] == alone


def test_four_choices_differ_and_a_seed_repeats_them(client) -> None:
    first, again = (complete(client, n=4, temperature=1.0, seed=7) for _ in range(2))
    texts = [choice.text for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2, 3]
    assert len(set(texts)) == 4
    assert [choice.text for choice in again.choices] == texts
    assert streamed(client, n=4, temperature=1.0, seed=7) == dict(enumerate(texts))
    assert complete(client, temperature=1.0, seed=8).choices[0].text != texts[0]
    assert complete(client, temperature=1.0, seed=7).choices[0].text == texts[0]


def test_choices_of_several_prompts_stand_together(client) -> None:
    prompts = [PROMPT, "Another one"]
    answer = complete(client, prompt=prompts, n=2, temperature=1.0, seed=3)
    alone = [complete(client, prompt=prompt, n=2, temperature=1.0, seed=3).choices for prompt in prompts]
    assert [choice.text for choice in answer.choices] == [choice.text for choices in alone for choice in choices]


def test_without_a_seed_answers_differ(client) -> None:
    assert len({complete(client, temperature=1.0).choices[0].text for _ in range(4)}) > 1


def test_a_tiny_top_p_is_greedy(client) -> None:
    greedy = complete(client).choices[0].text
    assert complete(client, temperature=1.0, top_p=1e-6, seed=1).choices[0].text == greedy


def test_text_ends_before_a_stop_string_and_the_tokens_up_to_it_are_counted(client) -> None:
    text = complete(client, max_tokens=40).choices[0].text
    at = next(i for i in range(5, len(text)) if text.find(text[i : i + 3]) == i and text[i : i + 3].isprintable())
    stop = text[at : at + 3]
    answer = complete(client, max_tokens=40, stop=[stop, "never comes"])
    assert answer.choices[0].text == text[:at]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].stop_reason == stop
    assert answer.usage.completion_tokens < 40
    assert streamed(client, max_tokens=40, stop=stop) == {0: text[:at]}


def test_a_stop_string_that_never_comes_holds_nothing_back(client) -> None:
    text = complete(client).choices[0].text
    assert streamed(client, stop=text[-1] + "never") == {0: text}
    assert complete(client, stop=text[-1] + "never").choices[0].text == text


def test_a_stop_token_ends_the_answer(rig, client) -> None:
    logprobs = complete(client, logprobs=0).choices[0].logprobs
    text = complete(client).choices[0].text
    token = rig.tokenizer.encode(text)[0]
    answer = complete(client, extra_body={"stop_token_ids": [token]})
    assert (answer.choices[0].finish_reason, answer.choices[0].stop_reason) == ("stop", token)
    assert answer.usage.completion_tokens == logprobs.tokens.index(text[0]) + 1


def test_end_of_text_ends_the_answer_unless_ignored(client) -> None:
    answer = complete(client, temperature=2.0, seed=0, max_tokens=100, n=100)
    seed = next(choice.index for choice in answer.choices if choice.finish_reason == "stop")
    again = complete(client, temperature=2.0, seed=seed, max_tokens=100, extra_body={"ignore_eos": True}).choices[0]
    assert again.finish_reason == "length"
    assert again.text.startswith(answer.choices[seed].text)


def test_logprobs_are_those_of_the_most_likely_tokens(client) -> None:
    logprobs = complete(client, logprobs=3).choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 12
    for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert len(top) == 3
        assert max(top, key=top.__getitem__) == token, "greedy takes the most likely token"
        assert top[token] == logprob
        assert 0 < sum(map(math.exp, top.values())) <= 1
    assert logprobs.text_offset == [len("".join(logprobs.tokens[:i])) for i in range(12)]


def test_streamed_logprobs_are_the_same(client) -> None:
    whole = complete(client, logprobs=2).choices[0].logprobs
    parts = [c.logprobs for chunk in complete(client, logprobs=2, stream=True) for c in chunk.choices if c.logprobs]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [value for part in parts for value in getattr(part, name)] == getattr(whole, name)


def test_a_token_that_was_not_likely_is_told_beside_the_likely_ones(client) -> None:
    logprobs = complete(client, logprobs=1, temperature=2.0, seed=5, max_tokens=30).choices[0].logprobs
    assert {len(top) for top in logprobs.top_logprobs} == {1, 2}
    assert all(token in top for token, top in zip(logprobs.tokens, logprobs.top_logprobs, strict=True))


def test_an_answer_never_outgrows_the_model(client) -> None:
    answer = complete(client, prompt=[5] * 2040, max_tokens=8, extra_body={"ignore_eos": True})
    assert answer.usage.total_tokens == 2048
