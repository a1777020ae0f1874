"""`/api/engines`: attaching, removing and trying over HTTP, and what is refused with one sentence."""

from __future__ import annotations

import pytest

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.metrics.pages import recorded_body
from tests.backend.metrics.web import serving as web_serving
from tests.backend.metrics.web import text
from tests.backend.served import backend_of, serving

ENGINE = {"name": "east", "metrics": "http://127.0.0.1:1/metrics"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("backend"), token="secret") as client:
        client.headers["authorization"] = "Bearer secret"
        yield client


@pytest.mark.parametrize("path", ["/api/engines", "/api/engines/test"])
@pytest.mark.parametrize(
    ("body", "status", "error", "field"),
    [
        (b"{", 400, "It is no JSON: ", None),
        (b"\xff", 400, "It is no text: ", None),
        (b"", 400, "It is no JSON: ", None),
        (b"[]", 400, "An engine is described by names and values", None),
        (b"{}", 400, "Mend name: it is missing.", "name"),
        (b'{"name": "a/b", "metrics": "http://h/"}', 400, "Mend name: an engine's name is up to 63", "name"),
        (b'{"name": "a", "events": "host:1"}', 400, "Mend events: 'host:1' is no endpoint", "events"),
        (b'{"name": "a", "name": "b"}', 400, "It says 'name' twice.", None),
        (
            b'{"name": "a", "make": "dynamo", "events": "file:///etc/passwd"}',
            400,
            "A file of events is named",
            "events",
        ),
        (
            b'{"name": "a", "metrics": "http://h/", "token_file": "/etc/shadow"}',
            400,
            "token_file is named",
            "token_file",
        ),
        (b'{"name": "a", "metrics": "http://h/", "labels": {"a b": "c"}}', 400, "Mend labels: 'a b' is no", "labels"),
        (
            b'{"name": "a", "replay": "tcp://*:1", "events": "tcp://h:1"}',
            400,
            "Mend replay: replay is dialled",
            "replay",
        ),
        (b" " * (64 * 1024 + 1), 413, "An engine is described in at most 64 KiB.", None),
        (b"[" * 60_000, 400, "It is nested deeper than", None),
    ],
)
def test_whatever_the_body_is_the_answer_is_one_sentence(http, path, body, status, error, field):
    answer = http.post(path, content=body)
    told = answer.json()
    assert answer.status_code == status, told
    assert told["error"].startswith(error)
    assert told.get("field") == field
    assert backend_of(http).observed.all == []


def test_a_name_is_had_once_whoever_has_it(http):
    try:
        assert http.post("/api/engines", json=ENGINE).status_code == 201
        again = http.post("/api/engines", json=ENGINE)
        assert (again.status_code, again.json()) == (
            409, {"error": "There is an engine 'east' already; give this one another name.", "field": "name"},
        )  # fmt: skip
    finally:
        assert http.delete("/api/engines/east").status_code == 204


def test_strangers_neither_attach_nor_remove_nor_try(http):
    refused = {"authorization": "Bearer wrong"}
    foreign = {"origin": "http://evil.example"}
    rebound = {"host": "evil.example"}
    for headers, status in ((refused, 401), (foreign, 403), (rebound, 403)):
        for method, path in (("POST", "/api/engines"), ("POST", "/api/engines/test"), ("DELETE", "/api/engines/east")):
            assert http.request(method, path, headers=headers, json=ENGINE).status_code == status
    assert backend_of(http).observed.all == []


def test_trying_attaches_nothing_and_leaves_what_is_watched_alone(http):
    with EngineRig() as rig, web_serving(text(recorded_body())) as web:
        spec = {"name": "east", "events": rig.events, "metrics": f"{web.url}/metrics"}
        assert http.post("/api/engines", json=spec).status_code == 201
        try:
            watched = backend_of(http).observed.get("east")
            answer = http.post("/api/engines/test", json=spec | {"name": "again"})
            assert answer.status_code == 200
            view = answer.json()
            assert (view["reachable"], view["events"]["state"], view["metrics"]["make"]) == (True, "silent", "vllm")
            assert {"panel", "label", "certainty", "why"} <= view["coverage"][0].keys()
            assert backend_of(http).observed.all == [watched]
        finally:
            assert http.delete("/api/engines/east").status_code == 204


@pytest.mark.parametrize("name", ["nobody", "x" * 64, "%2e%2e", "a%00b"])
def test_what_is_not_there_cannot_be_removed(http, name):
    answer = http.delete(f"/api/engines/{name}")
    assert answer.status_code in (404, 405)
    assert answer.json()["error"].endswith(".")


def test_the_shape_of_a_body_is_in_the_description_for_machines(http):
    operation = http.get("/api/openapi.json").json()["paths"]["/api/engines"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["required"] == ["name"]
