"""What engines that tell of hashes were at moments of the past, and when nobody watches them any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.moments import iso_time
from kvxray_backend.observed.spec import ObserveSpec

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.served import backend_of, serving, until
from tests.backend.test_residency_routes import CHAINS, T0, payload, removed, stored, watched

BATCH = 1 << 20
OVER_TIME = {f"{name}{end}" for name in ("cached", "stores_per_s", "evictions_per_s") for end in ("", "_min", "_max")}
MORE = (payload(removed(11), ts=T0 + 20), payload(stored([40]), ts=T0 + 30))


@contextmanager
def stored_only(folder: Path) -> Iterator[TestClient]:
    """A server whose engine is gone: what it told is stored."""
    with watched(folder, *CHAINS, *MORE):
        pass
    with serving(folder) as http:
        yield http


def _cached(http: TestClient, **params: Any) -> int:
    answer = http.get("/api/residency", params={"source": "e", **params})
    assert answer.status_code == 200, answer.text
    cached: int = answer.json()["figures"]["cached_blocks"]["value"]
    return cached


def test_the_past_of_an_engine_is_told_like_its_present(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS, *MORE) as http:
        until(lambda: http.get("/api/residency", params={"at": f"1.{3 * BATCH + 9}"}).status_code == 200)
        assert _cached(http) == 7
        assert _cached(http, at=f"1.{BATCH - 1}") == 6
        assert _cached(http, at=f"1.{2 * BATCH - 1}") == 7
        assert _cached(http, at=f"1.{3 * BATCH - 1}") == 6
        then = http.get("/api/residency", params={"at": iso_time(round((T0 + 11) * 1e9))}).json()
        assert (then["state"], then["epoch"], then["figures"]["cached_blocks"]["value"]) == ("past", 1, 7)
        map_then = http.get("/api/residency/map", params={"at": f"1.{BATCH - 1}"}).content
        assert len(map_then) == 32 + 6 * 24
        events = http.get("/api/residency/hash", params={"hash": f"{11:016x}", "history": 5}).json()["history"]
        assert [row["kind"] for row in events] == ["ResidencyRemoved", "ResidencyStored"]
        hash_then = http.get("/api/residency/hash", params={"at": f"1.{BATCH - 1}", "hash": f"{11:016x}"}).json()
        assert hash_then["certainty"] == "certain"
        told = http.get("/api/overview", params={"source": "e", "at": f"1.{BATCH - 1}"}).json()["engines"]
        assert [(one["state"], one["figures"]["cached_blocks"]["value"]) for one in told] == [("past", 6)]
        early = http.get("/api/overview", params={"at": iso_time(round((T0 - 1e6) * 1e9))}).json()["engines"]
        assert early[0]["verdict"]["sentence"].startswith("Cannot tell, because nothing is stored of the source e from")


def test_its_events_are_told_in_words(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS, *MORE) as http:
        rows = http.get("/api/events", params={"limit": 1000}).json()["events"]
        told = [(row["kind"], row["hash"], row["parent"], row["medium"], row["group"]) for row in rows if row["hash"]]
        again = http.get("/api/events", params={"from": "1.0", "limit": 3}).json()
    assert len(told) == 11
    assert told[0] == ("ResidencyStored", f"{1:016x}", None, "GPU", 0)
    assert told[3] == ("ResidencyStored", f"{10:016x}", f"{3:016x}", "GPU", 0)
    assert told[-2] == ("ResidencyRemoved", f"{11:016x}", f"{10:016x}", "GPU", 0)
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows}, key=lambda seq: int(seq[2:]))
    assert [row["seq"] for row in again["events"]] == [row["seq"] for row in rows[:3]]
    assert int(again["next"].split(".")[1]) == int(again["events"][-1]["seq"].split(".")[1]) + 1


def test_what_is_only_stored_is_as_it_was_in_the_end(tmp_path: Path) -> None:
    with stored_only(tmp_path) as http:
        (source,) = http.get("/api/sources").json()["sources"]
        assert (source["source"], source["kind"], source["state"]) == ("e", "hashes", "past")
        assert _cached(http) == 7
        (line,) = http.get("/api/engines").json()["engines"]
        assert (line["state"], line["kind"], line["make"]) == ("past", "hashes", "")
        (engine,) = http.get("/api/overview").json()["engines"]
        assert (engine["state"], engine["figures"]["used"]["value"]) == ("past", None)
        assert http.get("/api/coverage").json()["panels"]
        assert http.get("/api/events").json()["events"][-1]["hash"] == f"{40:016x}"
        assert http.get("/api/findings").status_code == 200
        assert http.get("/api/state").status_code == 409


def test_what_was_pruned_whole_stops_no_page(tmp_path: Path) -> None:
    old = payload(stored([1, 2]), ts=T0 - 400 * 86_400)
    with watched(tmp_path, old):
        pass
    with serving(tmp_path) as http:
        until(lambda: http.get("/api/residency", params={"source": "e"}).status_code == 404)
        (line,) = http.get("/api/engines").json()["engines"]
        (engine,) = http.get("/api/overview").json()["engines"]
        assert (line["state"], line["status"], line["coverage"]["exact"]) == ("past", "cannot_tell", 0)
        assert engine["figures"]["cached_blocks"]["value"] is None
        assert http.get("/api/sources").json()["sources"][0]["state"] == "past"


def test_moments_are_marked_and_stepped_through(tmp_path: Path) -> None:
    with stored_only(tmp_path) as http:
        last = http.get("/api/residency").json()["seq"]
        made = http.post("/api/bookmarks", params={"source": "e"}, json={"at": last, "note": "the end"})
        assert (made.status_code, made.json()["at"]) == (201, last)
        back = http.get("/api/step", params={"at": last, "by": "step", "n": -1}).json()
        assert int(back["at"].split(".")[1]) // BATCH == 2
        forth = http.get("/api/step", params={"at": back["at"], "by": "step", "n": 1}).json()
        assert forth["at"] == last
        first = http.get("/api/step", params={"at": last, "by": "event", "n": -1000}).json()
        assert first["at"] == "1.0"
        after = http.get("/api/step", params={"at": "1.0", "by": "event", "n": 2}).json()
        assert after["at"] == "1.2"


def test_over_time_only_what_its_events_tell_is_told(tmp_path: Path) -> None:
    with stored_only(tmp_path) as http:
        course = http.get("/api/course").json()
        timeline = http.get("/api/timeline").json()
    assert course["series"].keys() == OVER_TIME
    assert timeline["series"].keys() == {"cached", "cached_min", "cached_max", "stores_per_s", "evictions_per_s"}
    assert course["series"]["cached"][-1] == 7
    assert sum(timeline["series"]["stores_per_s"]) * timeline["seconds"] == pytest.approx(9)
    assert sum(timeline["series"]["evictions_per_s"]) * timeline["seconds"] == pytest.approx(2)


def test_a_watched_engine_wins_over_what_is_stored_under_its_name(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS):
        pass
    with EngineRig() as rig, serving(tmp_path) as http:
        backend_of(http).observed.attach(ObserveSpec(name="e", events=rig.events), "settings")
        (source,) = http.get("/api/sources").json()["sources"]
        assert source["state"] == "waiting"
        assert [engine["state"] for engine in http.get("/api/overview").json()["engines"]] == ["waiting"]
