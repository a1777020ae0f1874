"""The engine's HTTP API: texts as they grow, for this machine only."""

import json
import socket
import urllib.request

import pytest
from fastapi.testclient import TestClient
from kvxray_engine.api_server import ApiServer, check_port, create_api
from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.errors import UserError
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.request_texts import RequestTexts
from kvxray_engine.server.access import error_body
from kvxray_engine.tokenizer import ByteTokenizer


class World:
    def __init__(self, keep_ended: int = 1000) -> None:
        self.engine = LLMEngine(NullModel(num_blocks=9))
        self.texts = RequestTexts(ByteTokenizer(), keep_ended)
        self.client = TestClient(create_api(self.engine, self.texts), base_url="http://127.0.0.1:8000")

    def say(self, request_id: str, text: str, reason: FinishReason | None = None) -> None:
        self.texts.take([RequestOutput(request_id, list(text.encode()), reason)])
        self.texts.check_integrity()

    def text(self, request_id: str) -> dict:
        return self.client.get(f"/requests/{request_id}/text").json()


def test_a_text_grows_until_its_request_ended() -> None:
    world = World()
    world.say("a", "Tea ")
    assert world.text("a") == {"request_id": "a", "text": "Tea ", "finished": False}
    world.say("a", "is ready.", FinishReason.stop)
    assert world.text("a") == {"request_id": "a", "text": "Tea is ready.", "finished": True}


def test_a_request_that_waits_has_an_empty_text() -> None:
    world = World()
    world.engine.add_request(NewRequest("a", [1, 2, 3]))
    assert world.text("a") == {"request_id": "a", "text": "", "finished": False}


def test_half_a_character_does_not_break_a_text() -> None:
    world = World()
    world.texts.take([RequestOutput("a", [0xC3])])
    assert world.text("a")["text"] == "\ufffd"
    world.texts.take([RequestOutput("a", [0xBC])])
    assert world.text("a")["text"] == "ü"


def test_unknown_and_forgotten_requests_are_not_found() -> None:
    world = World(keep_ended=2)
    for name in "abc":
        world.say(name, name, FinishReason.stop)
    assert world.client.get("/requests/nobody/text").status_code == 404
    answer = world.client.get("/requests/a/text")
    assert answer.status_code == 404
    sentence = "The engine has no text of a: it never ran here, or ended too long ago."
    assert answer.json() == error_body(404, sentence)
    assert world.text("b")["text"] == "b"


def test_an_id_with_slashes_is_one_id() -> None:
    world = World()
    world.say("request/1", "one")
    assert world.text("request/1")["text"] == "one"


def test_health_says_which_model_and_step() -> None:
    assert World().client.get("/health").json() == {"status": "ok", "model": "null", "step": 0}


def test_a_monitor_may_ask_for_the_head_alone() -> None:
    client = World().client
    head, whole = client.head("/health"), client.get("/health")
    assert (head.status_code, head.headers["content-type"]) == (200, whole.headers["content-type"])


def test_an_engine_that_stands_still_is_not_well() -> None:
    world = World()
    client = TestClient(create_api(world.engine, world.texts, is_alive=lambda: False), base_url="http://127.0.0.1:8000")
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "failed")


def test_what_is_not_there_is_said_in_one_sentence() -> None:
    client = World().client
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/v1/nothing", 404), ("POST", "/health", 405)):
        answer = client.request(method, path)
        assert answer.status_code == status
        assert answer.json() == error_body(status, f"There is no {method} {path} here.")


def test_a_served_api_answers_and_closes() -> None:
    world = World()
    world.say("a", "hello")
    server = ApiServer(create_api(world.engine, world.texts), port=0)
    server.start()
    try:
        with urllib.request.urlopen(f"{server.address}/requests/a/text", timeout=10) as answer:
            assert json.load(answer)["text"] == "hello"
    finally:
        server.close()
    check_port(int(server.address.rsplit(":", 1)[1]), option="--port")


def test_a_port_in_use_is_said_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port}: .* choose another with --api-port"):
            check_port(port, option="--api-port")
