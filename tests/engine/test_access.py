"""Who may talk to the engine's API: names of this machine, no foreign pages, and whoever shows the token."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.api_server import create_api
from kvxray_engine.engine import LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.null_model import NullModel
from kvxray_engine.request_texts import RequestTexts
from kvxray_engine.server.access import AccessGate, AccessRules
from kvxray_engine.tokenizer import ByteTokenizer
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect


def client(rules: AccessRules | None = None) -> TestClient:
    api = create_api(LLMEngine(NullModel(num_blocks=9)), RequestTexts(ByteTokenizer()), rules)
    return TestClient(api, base_url="http://127.0.0.1:8000")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8000", True),
        ("127.3.2.1:8000", True),
        ("LOCALHOST:1", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:8000", False),
        ("localhost@evil.example", False),
        ("127.0.0.1/", False),
        ("10.0.0.1:8000", False),
        ("127.0.0.1:port", False),
        ("", False),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, allowed: bool) -> None:
    assert AccessRules().allows_host(host) == allowed
    if host:
        for path in ("/health", "/v1/models", "/metrics"):
            answer = client().get(path, headers={"host": host})
            assert (answer.status_code != 403) == allowed
            if not allowed:
                assert answer.json() == {
                    "error": {
                        "message": "This API answers only to names of this machine.",
                        "type": "permission_error", "param": None, "code": None,
                    }
                }  # fmt: skip


def test_beyond_this_machine_a_token_must_be_set() -> None:
    with pytest.raises(UserError, match=r"listen on 0\.0\.0\.0.*KVXRAY_TOKEN"):
        AccessRules(host="0.0.0.0")
    rules = AccessRules(host="0.0.0.0", token="secret", allowed_hosts=frozenset({"engine.lan"}))
    assert [rules.allows_host(host) for host in ("10.0.0.1:8000", "engine.lan", "evil.example")] == [True, True, False]


@pytest.mark.parametrize(
    ("authorization", "status"),
    [("Bearer secret", 200), ("bearer secret", 200), ("Bearer wrong", 401), ("Basic secret", 401), (None, 401)],
)
def test_where_a_token_is_set_every_request_shows_it(authorization: str | None, status: int) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = client(AccessRules(token="secret")).get("/health", headers=headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in answer.json()["error"]["message"]


@pytest.mark.parametrize("token", ["blank ", "ümlaut"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    with pytest.raises(UserError, match="ASCII"):
        AccessRules(token=token)


def test_pages_of_other_origins_are_refused() -> None:
    api = client()
    for origin, status in [("http://127.0.0.1:8000", 200), ("http://evil.example", 403), ("null", 403)]:
        assert api.get("/health", headers={"origin": origin}).status_code == status


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    answer = client(AccessRules(max_body_bytes=10)).post("/v1/completions", content=b"x" * 11)
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "The body is larger than 10 bytes: send less."


def test_there_are_no_sockets() -> None:
    with pytest.raises(WebSocketDisconnect) as refused, client().websocket_connect("/anything"):
        pass
    assert refused.value.code == 4403


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"host", b"origin", b"authorization", b"content-length", b"Host"]),
            st.one_of(st.binary(max_size=12), st.sampled_from([b"127.0.0.1", b"http://[", b"\xb2", b"9" * 5000])),
        ),
        max_size=5,
    )
)
def test_no_headers_break_the_gate(headers: list[tuple[bytes, bytes]]) -> None:
    """Every request is answered or passed on, whatever its headers hold."""
    said: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        said.append("passed on")

    async def send(message: Message) -> None:
        said.append(str(message.get("status", "")))

    async def receive() -> Message:
        raise AssertionError("nothing is read before it is let in")

    gate = AccessGate(app, AccessRules())
    asyncio.run(gate({"type": "http", "path": "/", "headers": headers}, receive, send))
    assert said == ["passed on"] or said[0] in ("403", "413")
