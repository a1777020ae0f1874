"""`/api/link`: from the labels and the time that others write to the page at that moment."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from kvxray_backend.exporter.link import NotOne, Place, find_place, moment_text

from tests.backend.metrics.web import serving as serving_pages
from tests.backend.metrics.web import text
from tests.backend.served import backend_of, caught_up, serving, source_of
from tests.backend.small_engine import SmallEngine

PLACES = [
    Place("a-0", "a", {"namespace": "prod", "pod": "a"}),
    Place("a-1", "a", {"namespace": "prod", "pod": "a", "dp_rank": "1"}),
    Place("b", "b", {"namespace": "prod", "pod": "b"}),
]


@pytest.mark.parametrize(
    ("asked", "source"),
    [
        ({"namespace": "prod", "pod": "a"}, "a-0"),
        ({"engine": "b"}, "b"),
        ({"source": "a-1"}, "a-1"),
        ({"pod": "b", "engine": ""}, "b"),
    ],
)
def test_an_engine_is_found_by_what_others_know_of_it(asked, source):
    assert find_place(PLACES, asked).source == source


@pytest.mark.parametrize(
    ("asked", "is_many", "word"),
    [
        ({"namespace": "prod"}, True, "a, b"),
        ({"pod": "c"}, False, "pod 'c'"),
        ({"namespace": "x", "pod": "a"}, False, "x"),
    ],
)
def test_none_and_several_are_said_in_one_sentence(asked, is_many, word):
    with pytest.raises(NotOne, match=word) as told:
        find_place(PLACES, asked)
    assert told.value.is_many is is_many


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        ("", "live"),
        ("live", "live"),
        ("3.10482", "3.10482"),
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ("1796115600", "2026-12-01T09:00:00.000Z"),
        ("1796115600.25", "2026-12-01T09:00:00.250Z"),
        ("1796115600250", "2026-12-01T09:00:00.250Z"),
        ("1796115600250000000", "2026-12-01T09:00:00.250Z"),
        ("yesterday", "yesterday"),
    ],
)
def test_moments_are_taken_as_others_write_them(at, moment):
    assert moment_text(at) == moment


def test_a_link_leads_to_the_moment_wherever_the_server_stands(tmp_path):
    with SmallEngine() as engine, serving(tmp_path, source_of(engine), base_path="/kv") as http:
        engine.work(100)
        caught_up(http, engine)
        now_ms = int(time.time() * 1000)
        went = http.get(f"/kv/api/link?node=here&go=1&at={now_ms}", follow_redirects=False)
        told = http.get("/kv/api/link", params={"engine": "engine", "at": str(now_ms)})
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert went.status_code == 303
    assert went.headers["location"].startswith("../?source=engine&at=" + when.replace(":", "%3A"))
    assert told.status_code == 200
    assert told.json()["source"] == "engine"
    assert told.json()["at"].startswith(when)
    assert told.json()["url"].startswith("./?source=engine&at=")


def test_a_public_address_makes_links_whole(tmp_path):
    with SmallEngine() as engine, serving(tmp_path, source_of(engine), public_url="https://kv.example/x/") as http:
        engine.work(10)
        caught_up(http, engine)
        assert http.get("/api/link?engine=engine").json()["url"] == "https://kv.example/x/?source=engine&at=live"


def test_what_cannot_be_linked_is_said(tmp_path):
    with SmallEngine() as engine, serving_pages(text("vllm:kv_cache_usage_perc 0.5\n")) as web:
        watched = [
            {"name": name, "make": "vllm", "metrics": f"{web.url}/metrics", "labels": {"namespace": "prod"}}
            for name in ("v1", "v2")
        ]
        with serving(tmp_path, source_of(engine), engines=watched) as http:
            engine.work(100)
            caught_up(http, engine)
            backend_of(http).log.flush(10)
            asked = {
                name: http.get(f"/api/link?{query}")
                for name, query in {
                    "none": "pod=nowhere", "several": "namespace=prod", "early": "engine=engine&at=1000000000",
                    "bad": "engine=engine&at=soon", "metrics": "engine=v2&at=1000000000",
                }.items()
            }  # fmt: skip
            away = http.get("/api/link?engine=//evil.example&go=1", follow_redirects=False)
            early = http.get("/api/link?engine=engine&at=1000000000&go=1", follow_redirects=False)
            page = http.get("/api/state?source=engine&at=2001-09-09T01:46:40Z")
    assert {name: answer.status_code for name, answer in asked.items()} == {
        "none": 404, "several": 409, "early": 404, "bad": 400, "metrics": 200,
    }  # fmt: skip
    assert "v1, v2" in asked["several"].json()["error"]
    assert asked["early"].json()["error"] == page.json()["error"], "what the page would say"
    assert away.status_code == 404
    assert early.headers["location"].startswith("../?source=engine&at=2001"), "the page itself says what is not stored"
