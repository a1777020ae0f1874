"""Bookmarks over the API: kept with their moment and note, and what is none is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.backend.past_told import moments
from tests.backend.served import caught_up
from tests.backend.small_engine import SmallEngine


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(leak=True) as engine:
        yield engine


def test_bookmarks_are_kept_with_their_moment_and_note(client: TestClient, engine: SmallEngine) -> None:
    first, second = moments(client, engine, 2)
    made = client.post("/api/bookmarks", json={"at": first["at"], "note": "before the storm"})
    assert made.status_code == 201
    client.post("/api/bookmarks", json={"at": second["at"]})
    told = client.get("/api/bookmarks").json()["bookmarks"]
    assert [(mark["at"], mark["note"]) for mark in told] == [(second["at"], ""), (first["at"], "before the storm")]
    assert told[1]["time"] == first["state"]["time"]
    assert client.delete(f"/api/bookmarks/{made.json()['id']}").status_code == 204
    assert client.delete(f"/api/bookmarks/{made.json()['id']}").status_code == 404
    assert [mark["at"] for mark in client.get("/api/bookmarks").json()["bookmarks"]] == [second["at"]]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"at": "live"}, 400), ({"at": "1.99999999"}, 404), ({"at": "1.1", "note": "x" * 501}, 422), ({}, 422), ([], 422)],
)
def test_what_is_no_bookmark_is_refused(client: TestClient, engine: SmallEngine, body: Any, status: int) -> None:
    engine.work(3)
    caught_up(client, engine)
    answer = client.post("/api/bookmarks", json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert client.get("/api/bookmarks").json()["bookmarks"] == []


def test_a_body_that_is_no_json_is_refused_in_words(client: TestClient) -> None:
    for body in (b"{", b"\xff\xfe", b"[" * 20):
        answer = client.post("/api/bookmarks", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert answer.json() == {"error": "The body is not JSON; /api/docs says what goes in it."}


def test_a_foreign_page_cannot_write_bookmarks(client: TestClient, engine: SmallEngine) -> None:
    (then,) = moments(client, engine, 1)
    foreign = {"origin": "http://evil.example"}
    assert client.post("/api/bookmarks", json={"at": then["at"]}, headers=foreign).status_code == 403
    assert client.get("/api/bookmarks").json()["bookmarks"] == []
