"""The text of a request, asked of its engine, which may answer badly or not at all."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.backend.served import serving, source_of
from tests.backend.small_engine import SmallEngine


def test_the_id_of_a_request_has_a_length(engine: SmallEngine, tmp_path: Path) -> None:
    with engine_api(404, b"{}") as (url, asked), serving(tmp_path, source_of(engine, api=url)) as client:
        for tail in ("", "/text"):
            answer = client.get(f"/api/requests/{'x' * 513}{tail}")
            assert answer.status_code == 422
            assert answer.json() == {"error": "Mend request_id: string should have at most 512 characters."}
        assert client.get(f"/api/requests/{'%F0%9F%A6%8A' * 512}/text").status_code == 404
        assert len(asked) == 1


def test_an_id_that_no_address_can_hold_is_one_sentence(
    engine: SmallEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise httpx2.InvalidURL("URL too long")

    monkeypatch.setattr(httpx2.AsyncClient, "stream", refuse)
    with serving(tmp_path, source_of(engine, api="http://127.0.0.1:9")) as client:
        answer = client.get("/api/requests/r/text")
        assert answer.status_code == 404
        assert answer.json() == {"error": "The engine cannot be asked for a request named 'r'."}


@contextmanager
def engine_api(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """The HTTP API of an engine that answers everything with this; tells the paths asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            if status == 302:
                self.send_header("location", "http://127.0.0.1:9/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_text_of_a_request_comes_from_its_engine(engine: SmallEngine, tmp_path: Path) -> None:
    told = json.dumps({"request_id": "agent-07/3", "text": "Hello", "finished": False}).encode()
    with engine_api(200, told) as (url, asked), serving(tmp_path, source_of(engine, api=url)) as client:
        answer = client.get("/api/requests/agent-07%2F3/text")
        assert answer.json() == {"request_id": "agent-07/3", "text": "Hello", "finished": False}
        assert asked == ["/requests/agent-07%2F3/text"]


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (404, b"{}", 404),
        (500, b"", 503),
        (302, b"", 503),
        (200, b"not json", 503),
        (200, b'{"finished": true}', 503),
        (200, b'{"text": "' + b"x" * (1 << 20) + b'"}', 503),
    ],
)
def test_an_engine_that_answers_badly_is_one_sentence(
    engine: SmallEngine, tmp_path: Path, status: int, body: bytes, answer: int
) -> None:
    with engine_api(status, body) as (url, _), serving(tmp_path, source_of(engine, api=url)) as client:
        told = client.get("/api/requests/r/text")
        assert told.status_code == answer
        assert set(told.json()) == {"error"}


def test_an_engine_whose_api_is_gone_is_one_sentence(engine: SmallEngine, tmp_path: Path) -> None:
    with serving(tmp_path, source_of(engine, api="http://127.0.0.1:9")) as client:
        told = client.get("/api/requests/r/text")
        assert (told.status_code, told.json()) == (503, {"error": "The engine's API does not answer."})
