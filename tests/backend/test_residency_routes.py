"""What the API tells of engines that tell of hashes: over a real publisher, and of one with metrics alone."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from kvxray_backend.observed.spec import ObserveSpec

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.metrics.web import serving as web_serving
from tests.backend.metrics.web import text
from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine

SOCKET = "ws://127.0.0.1:8501"
# Of late: what is older than is kept is pruned when it is stored.
T0 = float(round(time.time()) - 600)


def stored(hashes: list[int], parent: int | None = None, medium: str = "GPU") -> dict[str, Any]:
    return {
        "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
        "token_ids": list(range(16 * len(hashes))), "block_size": 16, "medium": medium,
    }  # fmt: skip


def removed(*hashes: int, medium: str = "GPU") -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": medium}


def payload(*events: dict[str, Any], ts: float = T0) -> bytes:
    return msgspec.msgpack.encode([ts, list(events), 0])


@contextmanager
def watched(folder: Path, *payloads: bytes, **spec: Any) -> Iterator[TestClient]:
    """A server that watches an engine `e`, which has told these batches."""
    with EngineRig() as rig, serving(folder) as http:
        backend = backend_of(http)
        backend.observed.attach(ObserveSpec(name="e", events=rig.events, **spec), "settings")
        rig.wait_for_subscriber()
        rig.publish(payloads=payloads)
        until(lambda: len(payloads) == 0 or _heard(http) == len(payloads) - 1)
        yield http


def _heard(http: TestClient) -> int | None:
    told: int | None = next(one["wire_seq"] for one in http.get("/api/sources").json()["sources"])
    return told


CHAINS = (
    payload(stored([1, 2, 3]), stored([10, 11], parent=3), stored([20], parent=2)),
    payload(stored([30, 31]), removed(30), ts=T0 + 10),
)


def test_what_is_cached_is_told_in_numbers(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS, num_blocks=100) as http:
        told = http.get("/api/residency").json()
    figures = told["figures"]
    assert (told["source"], told["kind"], told["make"], told["state"]) == ("e", "hashes", "vllm", "connected")
    assert figures["cached_blocks"] == {
        "value": 7, "unit": "blocks", "certainty": "exact", "since_seq": "1.0", "taints": [],
    }  # fmt: skip
    assert (figures["cached_tokens"]["value"], figures["maybe_blocks"]["value"]) == (7 * 16, 0)
    assert (figures["capacity_blocks"]["value"], figures["longest_chain"]["value"]) == (100, 5)
    assert figures["lifetime_p50_s"]["value"] == 0.0
    assert figures["usage"] == {
        "value": None, "unit": "ratio", "certainty": "not_observable", "since_seq": None, "taints": [],
    }  # fmt: skip
    assert (told["gaps"], told["late"], told["bad_messages"], told["trouble"]) == (0, 0, 0, "")
    place = told["places"][0]
    assert (place["medium"], place["tier"], place["block_size"], place["certain"]) == ("GPU", "GPU", 16, 7)
    assert (place["reachable"]["value"], place["unreachable"]["value"]) == (6, 1)


def test_the_map_brings_parents_before_their_children(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        body = http.get("/api/residency/map").content
        by_ordinal = {n: http.get("/api/residency/hash", params={"ordinal": n}).json()["hash"] for n in range(8)}
    magic, version, _, _, epoch, count, total, trees, last_s = struct.unpack_from("<4sBBHIIIId", body)
    assert (magic, version, epoch, count, total, trees, last_s) == (b"KVXC", 1, 1, 7, 7, 2, T0 + 10)
    assert len(body) == 32 + 7 * 24
    ordinals = np.frombuffer(body, "<u4", 7, 32)
    parents = np.frombuffer(body, "<u4", 7, 32 + 28)
    depths = np.frombuffer(body, "<u2", 7, len(body) - 14)
    flags = np.frombuffer(body, "u1", 7, 32 + 56 + 14 + 7)
    hashes = [int(by_ordinal[n], 16) for n in ordinals.tolist()]
    assert hashes == [1, 2, 3, 10, 11, 20, 31]
    assert [hashes[p] if p < 7 else p for p in parents.tolist()] == [2**32 - 1, 1, 2, 3, 10, 2, 2**32 - 2]
    assert depths.tolist() == [0, 1, 2, 3, 4, 2, 1]
    assert flags.tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_a_hash_is_told_in_full(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        told = http.get("/api/residency/hash", params={"hash": f"{2:016x}"}).json()
        gone = http.get("/api/residency/hash", params={"hash": f"{30:016x}"}).json()
        unknown = http.get("/api/residency/hash", params={"hash": "ff" * 8})
        nonsense = http.get("/api/residency/hash", params={"hash": "xyz"})
        nothing = http.get("/api/residency/hash")
    assert told["parent"] == {"hash": f"{1:016x}", "ordinal": 0, "is_here": True}
    assert [child["hash"] for child in told["children"]] == [f"{3:016x}", f"{20:016x}"]
    assert (told["chain_length"], told["certainty"], told["copies"], told["is_root"]) == (2, "certain", 1, False)
    assert (gone["certainty"], gone["copies"], gone["places"][0]["removals"], gone["is_root"]) == ("gone", 0, 1, True)
    assert (unknown.status_code, nonsense.status_code, nothing.status_code) == (404, 400, 400)
    assert "hexadecimal" in nonsense.json()["error"]


def test_an_engine_is_on_the_page_of_all_with_what_can_be_known_of_it(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS, labels={"pod": "p-1"}) as http:
        (line,) = http.get("/api/engines").json()["engines"]
        panels = {one["panel"]: one for one in http.get("/api/coverage").json()["panels"]}
        (source,) = http.get("/api/sources").json()["sources"]
    assert (line["name"], line["kind"], line["sources"], line["labels"]) == ("e", "hashes", ["e"], {"pod": "p-1"})
    assert (line["status"], line["origin"], line["removable"]) == ("cannot_tell", "settings", False)
    assert line["figures"]["cached_blocks"]["value"] == 7
    assert line["figures"]["usage"]["certainty"] == "not_observable"
    assert (panels["cached_set"]["certainty"], panels["leaks"]["certainty"]) == ("exact", "not_observable")
    counts = line["coverage"]
    assert counts["exact"] == sum(one["certainty"] == "exact" for one in panels.values())
    assert sum(counts.values()) == len(panels)
    assert (source["kind"], source["engine"], source["make"]) == ("hashes", "e", "vllm")


def test_who_came_late_is_told_less_surely(tmp_path: Path) -> None:
    with EngineRig() as rig, serving(tmp_path) as http:
        rig.publish(3)
        backend_of(http).observed.attach(ObserveSpec(name="e", events=rig.events), "settings")
        rig.wait_for_subscriber()
        rig.publish(2)
        until(lambda: http.get("/api/residency").json()["num_findings"])
        told = http.get("/api/residency").json()
        panels = {one["panel"]: one for one in http.get("/api/coverage").json()["panels"]}
    (finding,) = told["findings"]
    assert finding["kind"] == "joined_midstream"
    assert told["figures"]["cached_blocks"]["certainty"] == "derived"
    assert told["figures"]["cached_blocks"]["taints"] == [finding["id"]]
    assert (told["known_since"], panels["cached_set"]["certainty"]) == (None, "derived")
    assert panels["cached_set"]["taints"] == [finding["id"]]
    assert any("at least" in one["sentence"] for one in told["explanations"])


@pytest.mark.parametrize("path", ["state", "summary", "state/blocks", "blocks/1", "requests", "prefixes/00"])
def test_what_asks_for_blocks_is_told_where_to_ask(path: str, tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        answer = http.get(f"/api/{path}", params={"source": "e"})
    assert answer.status_code == 409
    assert answer.json() == {"error": "The source e tells of hashes, not of blocks: ask /api/residency."}


PAGE = """vllm:cache_config_info{block_size="16",num_gpu_blocks="11",enable_prefix_caching="True"} 1
vllm:kv_cache_usage_perc 0.0
vllm:num_requests_running 0
vllm:num_requests_waiting 0
vllm:prefix_cache_queries_total 100
vllm:prefix_cache_hits_total 10
"""


def test_the_socket_of_blocks_is_closed_with_the_reason(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http, http.websocket_connect(f"{SOCKET}/api/live?source=e") as socket:
        closed = socket.receive()
    assert (closed["code"], closed["reason"]) == (4409, "This source tells of no blocks: ask /api/residency.")


def test_an_engine_let_go_is_what_is_stored_of_it(tmp_path: Path) -> None:
    with watched(tmp_path, *CHAINS) as http:
        assert backend_of(http).observed.detach("e")
        until(lambda: [one["state"] for one in http.get("/api/engines").json()["engines"]] == ["past"])
        until(lambda: _cached_of(http, "e") == 7)
        assert http.get("/api/state", params={"source": "e"}).status_code == 409


def test_metrics_beside_events_tell_the_rest_and_what_differs_is_explained(tmp_path: Path) -> None:
    with web_serving(text(PAGE)) as web, watched(tmp_path, *CHAINS, metrics=f"{web.url}/metrics", every_s=1.0) as http:
        until(lambda: http.get("/api/residency").json()["figures"]["usage"]["value"] is not None)
        told = http.get("/api/residency").json()
        line = until(lambda: _healthy(http))
        panels = {one["panel"]: one for one in http.get("/api/coverage").json()["panels"]}
        (engine,) = http.get("/api/overview").json()["engines"]
    figures = told["figures"]
    assert (figures["usage"]["value"], figures["usage"]["certainty"]) == (0.0, "derived")
    assert (figures["capacity_blocks"]["value"], figures["running"]["value"]) == (10, 0)
    assert told["metrics"]["state"] == "reading"
    assert any(
        one["sentence"].startswith("0.0% of the cache is in use while 7 of 10 blocks are cached")
        for one in told["explanations"]
    )
    assert line["figures"]["capacity_blocks"]["value"] == 10
    assert (panels["used"]["certainty"], panels["ttft"]["certainty"]) == ("derived", "not_observable")
    assert any(one.startswith("leaks") for one in engine["verdict"]["not_judged"])


def _healthy(http: TestClient) -> dict[str, Any] | None:
    (line,) = http.get("/api/engines").json()["engines"]
    return line if line["status"] == "healthy" else None


def test_a_gap_taints_what_is_cached_until_it_is_repaired(tmp_path: Path) -> None:
    with EngineRig(answers=False) as rig, serving(tmp_path) as http:
        backend_of(http).observed.attach(ObserveSpec(name="e", events=rig.events), "settings")
        rig.wait_for_subscriber()
        rig.publish(2)
        until(lambda: _heard(http) == 1)
        rig.publish(1, is_heard=False)
        rig.publish(2)
        finding = until(lambda: http.get("/api/residency").json()["findings"])[0]
        told = http.get("/api/residency").json()
        (source,) = http.get("/api/sources").json()["sources"]
        listed = http.get("/api/findings", params={"state": "open"}).json()["findings"]
    assert finding["kind"] == "seq_gap"
    assert (told["figures"]["cached_blocks"]["value"], told["figures"]["cached_blocks"]["certainty"]) == (4, "derived")
    assert told["figures"]["cached_blocks"]["taints"] == [finding["id"]]
    assert (told["gaps"], source["gaps"], [one["id"] for one in listed]) == (1, 1, [finding["id"]])


def test_ranks_are_sources_of_one_engine(tmp_path: Path) -> None:
    with EngineRig() as rig, serving(tmp_path) as http:
        backend_of(http).observed.attach(ObserveSpec(name="e", events=rig.events, num_blocks=50), "settings")
        rig.wait_for_subscriber()
        rig.publish(payloads=[msgspec.msgpack.encode([T0, [stored([n])], n % 2]) for n in range(1, 7)])
        until(lambda: _cached_of(http, "e") == 3 and _cached_of(http, "e/1") == 3)
        (line,) = until(lambda: _with_ranks(http, 2))
        assert [one["engine"] for one in http.get("/api/sources").json()["sources"]] == ["e", "e"]
        unknown = http.get("/api/residency", params={"source": "e/2"})
    assert (line["sources"], line["figures"]["cached_blocks"]["value"]) == (["e", "e/1"], 6)
    assert unknown.status_code == 404


def _cached_of(http: TestClient, source: str) -> int | None:
    answer = http.get("/api/residency", params={"source": source}).json()
    return answer["figures"]["cached_blocks"]["value"] if "figures" in answer else None


def _with_ranks(http: TestClient, num: int) -> list[dict[str, Any]] | None:
    engines: list[dict[str, Any]] = http.get("/api/engines").json()["engines"]
    told = [one["figures"]["cached_blocks"]["value"] for one in engines]
    return engines if len(engines[0]["sources"]) == num and told == [6] else None


def test_an_engine_of_ours_stands_on_the_same_page(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        engine.work(20)
        caught_up(http, engine)
        (line,) = http.get("/api/engines").json()["engines"]
        panels = {one["panel"]: one["certainty"] for one in http.get("/api/coverage").json()["panels"]}
        refused = http.get("/api/residency")
    assert (line["kind"], line["make"], line["state"], line["removable"]) == ("blocks", "kvxray", "connected", False)
    assert line["figures"]["capacity_blocks"]["value"] > line["figures"]["cached_blocks"]["value"]
    assert (panels["leaks"], panels["offload"]) == ("exact", "not_observable")
    assert refused.json() == {"error": "The source engine tells of blocks, not of hashes: ask /api/state."}


def test_an_engine_without_events_is_known_by_its_metrics_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as http:
        spec = ObserveSpec(name="m", metrics="http://127.0.0.1:9/metrics")
        backend_of(http).observed.attach(spec, "page")
        told = http.get("/api/residency").json()
        until(lambda: http.get("/api/residency").json()["metrics"]["state"] == "failing")
        (line,) = http.get("/api/engines").json()["engines"]
        map_answer = http.get("/api/residency/map")
        panels = {one["panel"]: one for one in http.get("/api/coverage").json()["panels"]}
    assert (told["kind"], told["state"], told["epoch"], told["places"]) == ("metrics", "no_stream", None, [])
    assert all(figure["value"] is None for figure in told["figures"].values())
    assert (line["kind"], line["removable"]) == ("metrics", True)
    assert map_answer.status_code == 409
    assert panels["cached_set"]["certainty"] == "not_observable"


def test_overview_fleet_and_residency_tell_the_same(tmp_path: Path) -> None:
    """Of an engine that rests: what moves with the clock is left out."""
    with web_serving(text(PAGE)) as web, watched(tmp_path, *CHAINS, metrics=f"{web.url}/metrics", every_s=1.0) as http:
        until(lambda: http.get("/api/overview").json()["engines"][0]["figures"]["used"]["value"] is not None)
        until(lambda: http.get("/api/residency").json()["figures"]["usage"]["value"] is not None)
        until(lambda: _healthy(http))
        told = http.get("/api/residency").json()["figures"]
        (engine,) = http.get("/api/overview").json()["engines"]
        (line,) = http.get("/api/engines").json()["engines"]
    moves = {name for name in told if name.endswith("_s")}
    for name in told.keys() - moves:
        assert line["figures"].get(name, told[name]) == told[name], name
        same = engine["figures"].get({"usage": "used"}.get(name, name))
        assert same == told[name] or (same is None and name in ("chains", "longest_chain")), name
