"""What the API refuses, one sentence each: sources, moments, routes and methods that are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.backend.served import caught_up, serving, source_of
from tests.backend.small_engine import SmallEngine


@pytest.fixture(scope="module")
def engine() -> Iterator[SmallEngine]:
    """One for all: nothing of it is changed by what is refused."""
    with SmallEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: SmallEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("served"), source_of(engine)) as client:
        yield client


DATA_ROUTES = (
    "state",
    "state/blocks",
    "state/details",
    "state/order",
    "blocks/1",
    "blocks/1/chain",
    "prefixes/00ff",
    "requests",
    "requests/x",
    "requests/x/text",
    "events",
    "findings",
)


@pytest.mark.parametrize("route", DATA_ROUTES)
def test_a_source_that_does_not_exist(client: TestClient, route: str) -> None:
    answer = client.get(f"/api/{route}", params={"source": "nope"})
    assert answer.status_code == 404
    assert answer.json() == {"error": "There is no source 'nope'; /api/sources lists them."}


@pytest.mark.parametrize("route", DATA_ROUTES)
@pytest.mark.parametrize("at", ["yesterday", "1.", "-1.2", "1.2.3", "2026-13-01T00:00:00Z", "1" * 30 + ".1", ""])
def test_what_is_no_moment_is_refused(client: TestClient, route: str, at: str) -> None:
    answer = client.get(f"/api/{route}", params={"at": at})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Write the moment as live, EPOCH.SEQ or an ISO-8601 time, not ")


def test_texts_are_told_of_the_present_only(client: TestClient) -> None:
    answer = client.get("/api/requests/x/text", params={"at": "1.20"})
    assert answer.status_code == 400
    assert answer.json() == {"error": "Ask for the text with at=live: what requests generate is not stored."}


@pytest.mark.parametrize(
    "route", ["state", "state/blocks", "state/details", "state/order", "blocks/1", "requests", "requests/x"]
)
def test_before_the_source_was_joined(tmp_path: Path, route: str) -> None:
    nobody = {"name": "engine", "events": f"ipc://{tmp_path}/e", "replay": f"ipc://{tmp_path}/r"}
    with serving(tmp_path, nobody) as client:
        answer = client.get(f"/api/{route}")
        assert answer.status_code == 503
        assert answer.json() == {"error": "The source engine has not been joined yet; try again in a moment."}


def test_without_any_source(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.get("/api/sources").json() == {"sources": []}
        assert client.get("/api/health").json()["status"] == "ok"
        assert client.get("/api/state").json()["error"].startswith("No source is configured")


@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("requests?limit=0", 422),
        ("requests?limit=1001", 422),
        ("requests?status=resting", 400),
        ("events?limit=1001", 422),
        ("events?from=abc", 400),
        ("events?from=1.-2", 400),
        ("findings?state=maybe", 422),
        ("blocks/abc", 422),
        ("requests/nobody", 404),
        ("requests/nobody/text", 404),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    client: TestClient, engine: SmallEngine, route: str, status: int
) -> None:
    engine.work(2)
    caught_up(client, engine)
    answer = client.get(f"/api/{route}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"].endswith(".")


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/api", "/api/nope", "/api/", "/api/state/nope/deeper", "/api/_stcore/health"])
def test_unknown_routes_of_the_api_answer_json(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("path", ["/api/health", "/api/requests/a/b", "/api/openapi.json", "/api/docs"])
def test_routes_of_the_api_say_that_they_are_asked_with_get(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.json() == {"error": f"Ask for {path} with GET."}


@pytest.mark.parametrize(
    ("method", "path", "allowed", "sentence"),
    [
        ("PUT", "/api/engines", "GET, HEAD, POST", "Ask for /api/engines with GET or POST."),
        ("PATCH", "/api/engines/east", "DELETE", "Ask for /api/engines/east with DELETE."),
        ("HEAD", "/api/engines/east", "DELETE", None),
    ],
)
def test_a_path_says_all_that_it_is_asked_with(
    client: TestClient, method: str, path: str, allowed: str, sentence: str | None
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert sentence is None or answer.json() == {"error": sentence}


def test_head_is_what_get_is(client: TestClient) -> None:
    answer = client.head("/api/health")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert client.head("/api/nope").status_code == 404
