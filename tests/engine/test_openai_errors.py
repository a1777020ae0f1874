"""What cannot be done is refused in one sentence, in the shape OpenAI's clients read, and harms nothing."""

import json
import urllib.error
import urllib.request

import openai
import pytest
from kvxray_engine.server.access import AccessRules

from tests.engine.openai_rig import MODEL, Rig, until


@pytest.fixture(scope="module")
def rig():
    with Rig(rules=AccessRules(max_body_bytes=100_000)) as rig:
        yield rig


@pytest.fixture(scope="module")
def client(rig):
    with rig.client() as client:
        yield client


def refusal(client: openai.OpenAI, **wanted) -> dict:
    wanted = {"model": MODEL, "prompt": "Hello", "max_tokens": 4} | wanted
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**wanted)
    return refused.value.body


@pytest.mark.parametrize(
    ("wanted", "param", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens", "max_tokens: input should be greater than or equal to 1."),
        ({"max_tokens": "many"}, "max_tokens", "max_tokens: input should be a valid integer."),
        ({"temperature": -1}, "temperature", "temperature: input should be greater than or equal to 0."),
        ({"top_p": 0}, "top_p", "top_p: input should be greater than 0."),
        ({"n": 129}, "n", "n: input should be less than or equal to 128."),
        ({"prompt": []}, "prompt", "prompt must be a text, a list of token ids, or a list of either"),
        ({"prompt": [[]]}, "prompt", "prompt must be a text"),
        ({"prompt": [1, "a"]}, "prompt", "prompt must be a text"),
        ({"prompt": ""}, None, "An empty prompt cannot be continued: send at least one token."),
        ({"prompt": [272]}, None, "Token ids of tiny go from 0 to 271."),
        ({"prompt": ["a"] * 100, "n": 3}, None, "Prompts times n must not be more than 256."),
        ({"prompt": [5] * 3000}, "max_tokens", "at most 2048 tokens, but the prompt has 3000 and 4 more are asked for"),
        ({"stop": ""}, "stop", "Give at most 16 stop strings of 1 to 256 characters."),
        ({"stop": ["x"] * 17}, "stop", "Give at most 16 stop strings"),
        ({"logprobs": 21}, "logprobs", "logprobs: input should be less than or equal to 20."),
        ({"seed": 2**70}, "seed", "seed: input should be less than 9223372036854775808."),
        ({"logit_bias": {"5": 1}}, None, "This server cannot do logit_bias yet: leave it out."),
        ({"echo": True}, None, "This server cannot do echo yet: leave it out."),
        ({"extra_body": {"top_k": 5}}, None, "This server cannot do top_k yet: leave it out."),
        ({"extra_body": {"colour": 1}}, "colour", "This server does not know colour: leave it out."),
        ({"extra_body": {"priority": 1}}, "priority", "priority needs an engine that runs with --scheduling-policy"),
        ({"extra_body": {"cache_salt": ""}}, "cache_salt", "cache_salt: string should have at least 1 character."),
        ({"stream_options": {"include_usage": True}}, None, "stream_options needs stream to be true."),
    ],
)
def test_a_wrong_field_is_named(client, wanted: dict, param: str | None, sentence: str) -> None:
    error = refusal(client, **wanted)
    assert error["param"] == param
    assert sentence in error["message"]
    assert error["type"] == "invalid_request_error"
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    "neutral",
    [{"presence_penalty": 0, "frequency_penalty": 0.0, "best_of": 1, "user": "someone", "suffix": None},
     {"extra_body": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "skip_special_tokens": True}}],
)  # fmt: skip
def test_fields_that_ask_for_nothing_special_are_taken(client, neutral: dict) -> None:
    assert client.completions.create(model=MODEL, prompt="Hello", max_tokens=2, **neutral).choices


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"messages": []}, "messages: list should have at least 1 item"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "of type text",
        ),
        ({"messages": [{"role": "judge", "content": "x"}]}, "messages.0.role: input should be 'system'"),
        ({"top_logprobs": 3}, "top_logprobs needs logprobs to be true."),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "This server cannot do tools yet"),
        ({"response_format": {"type": "json_object"}}, "This server cannot do response_format yet"),
    ],
)
def test_a_conversation_that_cannot_be_had_is_refused(client, wanted: dict, sentence: str) -> None:
    wanted = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4} | wanted
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**wanted)
    assert sentence in refused.value.body["message"]


def post(rig: Rig, body: bytes, path: str = "/completions") -> tuple[int, dict]:
    request = urllib.request.Request(rig.url + path, data=body)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    with refused.value as answer:
        return answer.code, json.load(answer)["error"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "The body is not JSON"),
        (b"{", "The body is not JSON"),
        (b"[]", "Send one JSON object."),
        (b'"text"', "Send one JSON object."),
        (b"\xff\xfe", "The body is not JSON"),
        (b'{"prompt": "\\ud800"}', "The body is not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', "temperature: input should be a finite number."),
        (b"[" * 50_000, "The body is not JSON"),
        (b"{}", "prompt is missing."),
    ],
)
def test_a_body_that_is_none_is_refused(rig, body: bytes, sentence: str) -> None:
    status, error = post(rig, body)
    assert status == 400
    assert sentence in error["message"]


def test_a_body_that_grows_too_large_is_refused(rig, client) -> None:
    def parts():
        yield b'{"prompt": "'
        for _ in range(20):
            yield b"x" * 10_000
        yield b'"}'

    with pytest.raises(openai.APIStatusError) as refused:
        client.post("/completions", cast_to=object, content=parts())
    assert refused.value.status_code == 413
    assert refused.value.body["message"] == "The body is larger than 100000 bytes: send less."


def test_an_unknown_model_or_path_is_not_found(rig, client) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-9' here: use tiny"):
        client.completions.create(model="gpt-9", prompt="Hello")
    assert post(rig, b"{}", "/embeddings")[0] == 404


def test_mistakes_cost_no_blocks_and_open_nothing(rig, client) -> None:
    refusal(client, prompt=["good", ""])
    until(rig.is_idle)
    assert rig.server.front.num_open == 0


def test_too_many_sequences_are_turned_away_until_some_have_ended() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        rig.server.front._max_open = 3
        stream = client.completions.create(model=MODEL, prompt="Hello", n=3, max_tokens=2, stream=True)
        with pytest.raises(openai.InternalServerError) as refused:
            client.completions.create(model=MODEL, prompt="Hello")
        assert refused.value.status_code == 503
        assert refused.value.body["message"] == "3 sequences run or wait already: try again later."
        rig.step(3)
        assert list(stream)
        until(lambda: rig.server.front.num_open == 0)


def test_a_key_is_asked_for_where_one_is_set() -> None:
    with Rig(rules=AccessRules(token="secret")) as rig:
        with rig.client(api_key="secret") as client:
            assert client.models.list().data
        with rig.client(api_key="wrong") as client, pytest.raises(openai.AuthenticationError, match="Bearer"):
            client.models.list()


class Broken(Exception):
    pass


def test_a_model_that_fails_ends_its_requests_and_the_server_goes_on() -> None:
    with Rig(stepped=True) as rig, rig.client() as client:
        execute = rig.engine.model.execute

        def fail(batch):
            raise Broken

        stream = client.completions.create(model=MODEL, prompt="Hello", max_tokens=8, stream=True)
        rig.step(2)
        rig.engine.model.execute = fail
        rig.step()
        with pytest.raises(openai.APIError, match="engine failed before the answer was complete"):
            list(stream)
        assert rig.is_idle()
        rig.engine.model.execute = execute
        stream = client.completions.create(model=MODEL, prompt="Hello", max_tokens=2, stream=True)
        rig.step(3)
        assert list(stream)


def test_an_engine_that_stands_still_tells_whoever_waits_and_whoever_comes() -> None:
    with Rig() as rig, rig.client() as client:

        def fail() -> None:
            raise Broken

        rig.engine.scheduler.schedule = fail
        with pytest.raises(openai.InternalServerError, match="engine failed before"):
            client.completions.create(model=MODEL, prompt="Hello", max_tokens=8)
        until(lambda: not rig.loop.alive)
        with pytest.raises(openai.InternalServerError, match="The engine has failed: its log says why"):
            client.completions.create(model=MODEL, prompt="Hello", max_tokens=8)
        with pytest.raises(urllib.error.HTTPError) as unwell:
            urllib.request.urlopen(rig.server.address + "/health", timeout=30)
        unwell.value.close()
        assert unwell.value.code == 503
