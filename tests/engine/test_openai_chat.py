"""/v1/chat/completions and /v1/models as the official client sees them."""

import openai
import pytest

from tests.engine.openai_rig import MODEL, Rig

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tea or coffee?"}]


@pytest.fixture(scope="module")
def rig():
    with Rig(names=(MODEL, "another-name")) as rig:
        yield rig


@pytest.fixture(scope="module")
def client(rig):
    with rig.client() as client:
        yield client


def chat(client: openai.OpenAI, **wanted):
    wanted = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 10} | wanted
    return client.chat.completions.create(**wanted)


def test_an_answer_continues_the_conversation_as_the_model_writes_it(rig, client) -> None:
    answer = chat(client)
    prompt = rig.tokenizer.apply_chat_template(MESSAGES)
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage.prompt_tokens == len(prompt)
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    completion = client.completions.create(model=MODEL, prompt=prompt, temperature=0, max_tokens=10)
    assert choice.message.content == completion.choices[0].text


def test_a_stream_opens_with_the_role_and_ends_with_the_reason(client) -> None:
    whole = chat(client)
    chunks = list(chat(client, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
    assert not any(chunk.choices[0].finish_reason for chunk in chunks[:-1])


def test_four_choices_stream_side_by_side(client) -> None:
    whole = chat(client, n=4, temperature=1.0, seed=11)
    texts = dict.fromkeys(range(4), "")
    chunks = list(chat(client, n=4, temperature=1.0, seed=11, stream=True, stream_options={"include_usage": True}))
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert list(texts.values()) == [choice.message.content for choice in whole.choices]
    order = [choice.index for chunk in chunks[4:] for choice in chunk.choices]
    assert order != sorted(order), "they grow together, not one after the other"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_parts_of_text_are_one_text_and_developers_speak_as_the_system(client) -> None:
    parts = [{"type": "text", "text": "Tea or "}, {"type": "text", "text": "coffee?"}]
    spelled = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    assert chat(client, messages=spelled).choices[0].message == chat(client).choices[0].message


def test_the_newer_name_of_the_limit_counts(client) -> None:
    assert chat(client, max_completion_tokens=3).usage.completion_tokens == 3


def test_without_a_limit_an_answer_may_fill_the_model(client) -> None:
    wanted = {"model": MODEL, "messages": [{"role": "user", "content": "a" * 1950}], "temperature": 0}
    answer = client.chat.completions.create(**wanted, extra_body={"ignore_eos": True})
    assert answer.usage.total_tokens == 2048
    assert answer.choices[0].finish_reason == "length"


def test_logprobs_name_tokens_and_their_bytes(client) -> None:
    content = chat(client, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert len(content) == 10
    for token in content:
        assert [top.token for top in token.top_logprobs][0] == token.token
        assert len(token.top_logprobs) == 2
        assert len(token.bytes) == 1 or token.token.startswith("<|")
    streamed = [
        token
        for chunk in chat(client, logprobs=True, top_logprobs=2, stream=True)
        if chunk.choices[0].logprobs
        for token in chunk.choices[0].logprobs.content
    ]
    assert streamed == content


def test_logprobs_without_others_name_the_chosen_token_alone(client) -> None:
    content = chat(client, logprobs=True).choices[0].logprobs.content
    assert all(token.top_logprobs == [] for token in content)


def test_a_conversation_goes_on_in_the_cache(client) -> None:
    first = chat(client, max_tokens=30)
    messages = [*MESSAGES, first.choices[0].message.model_dump(include={"role", "content"})]
    second = chat(client, messages=[*messages, {"role": "user", "content": "Why?"}])
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens // 16 * 16


def test_the_model_list_names_the_model_as_clients_may_call_it(client) -> None:
    models = client.models.list().data
    assert [model.id for model in models] == [MODEL, "another-name"]
    assert client.models.retrieve("another-name").max_model_len == 2048
    assert chat(client, model="another-name").model == "another-name"
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-9' here: use tiny or another-name"):
        client.models.retrieve("gpt-9")
