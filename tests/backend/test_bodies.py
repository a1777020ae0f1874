"""Bodies of requests are cut off while they stream in, whatever route they are for."""

from __future__ import annotations

import asyncio

import pytest

from tests.backend.served import ADDRESS, serving

PIECE = b" " * 65_536
NUM_PIECES = 1_000
ROUTES = [
    ("POST", "/api/rules"),
    ("POST", "/api/rules/try"),
    ("PUT", "/api/rules/LeakNamed"),
    ("POST", "/api/mutes"),
    ("POST", "/api/bookmarks"),
    ("POST", "/api/engines"),
    ("POST", "/api/engines/test"),
]


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("backend")) as client:
        yield client


def streamed(http, method, path):
    """The status of the answer to a body that does not end, and how many of its pieces were asked for."""
    pieces, statuses = [], []

    async def receive():
        pieces.append(PIECE)
        return {"type": "http.request", "body": PIECE, "more_body": len(pieces) < NUM_PIECES}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"host", ADDRESS.removeprefix("http://").encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8501), "state": {},
    }  # fmt: skip
    asyncio.run(http.app(scope, receive, send))
    return statuses[0], len(pieces)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_body_that_does_not_end_is_refused_before_it_ends(http, method, path):
    status, num_pieces = streamed(http, method, path)
    assert status == 413
    assert num_pieces < 20


def test_every_route_with_a_body_is_among_them(http):
    told = http.get("/api/openapi.json").json()["paths"]
    with_body = {
        (method.upper(), path) for path, ways in told.items() for method in ways if "requestBody" in ways[method]
    }
    assert with_body == {(method, path.replace("LeakNamed", "{name}")) for method, path in ROUTES}


def test_what_fits_is_read_as_before(http):
    as_json = {"content-type": "application/json"}
    refused = http.post("/api/rules", content=PIECE + b'{"text": "rules"}', headers=as_json)
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("line 1, at the top:")
    assert http.post("/api/rules", content=b"", headers=as_json).status_code == 422
