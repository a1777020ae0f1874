"""The page's client: what it asks, with which token, and one sentence when there is no answer."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from kvxray_app.client import BackendError, Client


def client_of(answer: Any, status: int = 200, asked: list[httpx2.Request] | None = None) -> Client:
    def handle(request: httpx2.Request) -> httpx2.Response:
        if asked is not None:
            asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(status, **({"text": answer} if isinstance(answer, str) else {"json": answer}))

    return Client("http://127.0.0.1:1/base/", token="secret", transport=httpx2.MockTransport(handle))


def test_token_and_base_path_are_used() -> None:
    asked: list[httpx2.Request] = []
    told = {"findings": [1], "total": 5}
    assert client_of(told, asked=asked).findings("demo", 1, "open", kind="gap") == told
    assert str(asked[0].url) == "http://127.0.0.1:1/base/api/findings?source=demo&state=open&limit=1&kind=gap"
    assert asked[0].headers["authorization"] == "Bearer secret"


def test_events_are_asked_from_a_moment_on() -> None:
    asked: list[httpx2.Request] = []
    client_of({"events": [], "next": None}, asked=asked).events("demo", 50, first="3.10")
    assert dict(asked[0].url.params) == {"source": "demo", "limit": "50", "from": "3.10"}


@pytest.mark.parametrize(
    ("answer", "status", "sentence"),
    [
        ({"error": "There is no such source."}, 404, "There is no such source."),
        ({}, 500, "The backend answered 500."),
        ("<html>", 200, "The backend does not answer; it may be starting or stopping. Try again."),
        (httpx2.ConnectError("refused"), 0, "The backend does not answer; it may be starting or stopping. Try again."),
    ],
)
def test_failure_is_one_sentence(answer: Any, status: int, sentence: str) -> None:
    with pytest.raises(BackendError) as error:
        client_of(answer, status).health()
    assert str(error.value) == sentence
