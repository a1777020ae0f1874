"""Every route, on a backend that follows a real engine into a real database."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from fastapi.testclient import TestClient
from kvxray_backend import block_details, block_sharers
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.stored_findings import row_of
from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_storage import history

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.told import SECOND
from tests.backend.viewer import Picture, read_frame


def test_sources_say_how_they_are_followed(client: TestClient, engine: SmallEngine) -> None:
    engine.work(10)
    caught_up(client, engine)
    (source,) = client.get("/api/sources").json()["sources"]
    assert (source["source"], source["state"], source["epoch"]) == ("engine", "connected", 1)
    assert source["incarnation"] == engine.publisher.incarnation
    assert source["last_seq"] == f"1.{engine.recorder.next_seq - 1}"
    assert source["wire_seq"] == engine.recorder.next_wire_seq - 1
    assert (source["gaps"], source["drops"], source["bad_messages"]) == (0, 0, 0)
    assert source["labels"] == {"model": "null", "node": "here"}
    assert source["descriptor"]["num_blocks"] == 65
    assert source["lag_s"]["certainty"] == "derived"
    assert 0 <= source["lag_s"]["value"] < 5
    (epoch,) = source["epochs"]
    assert (epoch["epoch"], epoch["ended_at"]) == (1, None)


def test_state_equals_the_engine(client: TestClient, engine: SmallEngine) -> None:
    engine.work(30)
    caught_up(client, engine)
    state = client.get("/api/state").json()
    counts = {name: figure["value"] for name, figure in state["counts"].items()}
    refs = engine.engine.pool.ref_cnt[1:]
    assert sum(counts.values()) == state["usable_blocks"] == 64
    assert counts["active"] == sum(ref == 1 for ref in refs)
    assert counts["shared"] == sum(ref > 1 for ref in refs)
    assert counts["unknown"] == 0
    assert state["figures"]["used"]["value"] == sum(ref > 0 for ref in refs) / 64
    assert state["figures"]["running"]["value"] == len(engine.engine.scheduler.running)
    assert (state["at"], state["epoch"], state["seq"]) == ("live", 1, f"1.{engine.recorder.next_seq - 1}")
    assert state["step"] == engine.engine.step_count
    for figure in [*state["counts"].values(), *state["figures"].values()]:
        assert set(figure) == {"value", "unit", "certainty", "since_seq", "taints"}
        assert figure["certainty"] == "exact"
        assert figure["since_seq"].startswith("1.")
    assert set(state["figures"]) == {
        "used", "cached", "shared", "hit_rate", "evictions_per_s", "allocations_per_s", "preemptions_per_s",
        "internal_fragmentation", "leaked", "leaked_only", "ttft_p50_s", "running", "waiting", "tokens_per_s",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("accepted", "encoding", "unpack"),
    [
        ("identity", None, bytes),
        ("gzip", "gzip", gzip.decompress),
        ("gzip, deflate, br, zstd", "zstd", lambda data: zstandard.ZstdDecompressor().decompress(data)),
        ("zstd;q=0, gzip", "gzip", gzip.decompress),
    ],
)
def test_the_snapshot_shows_every_block(
    client: TestClient, engine: SmallEngine, accepted: str, encoding: str | None, unpack
) -> None:
    engine.work(30)
    caught_up(client, engine)
    with client.stream("GET", "/api/state/blocks", headers={"accept-encoding": accepted}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == encoding
    picture = Picture()
    picture.load(read_frame(unpack(body)))
    block_map = backend_of(client).sources["engine"].live.block_map
    assert block_map is not None
    assert (picture.columns[0] == block_map.state).all()
    assert picture.epoch == 1
    assert picture.seq == engine.recorder.next_seq - 1


def test_a_snapshot_that_has_not_changed_is_not_sent_again(client: TestClient, engine: SmallEngine) -> None:
    engine.work(10)
    caught_up(client, engine)
    etag = client.get("/api/state/blocks").headers["etag"]
    again = client.get("/api/state/blocks", headers={"if-none-match": etag})
    assert (again.status_code, again.content) == (304, b"")


def dump_of_two_that_share(client: TestClient, engine: SmallEngine) -> PoolDump:
    """The engine's own state, with two requests whose prompts begin alike."""
    engine.add("first", prompt=60, output=30)
    engine.step(3)
    engine.add("second", prompt=60, output=30)
    engine.step(3)
    caught_up(client, engine)
    return engine.engine.dump_state()


def test_a_block_in_full(client: TestClient, engine: SmallEngine) -> None:
    dump = dump_of_two_that_share(client, engine)
    shared = next(block for block in range(1, 65) if dump.ref_cnt[block] == 2)
    block = client.get(f"/api/blocks/{shared}").json()
    assert (block["block_id"], block["state"], block["medium"]) == (shared, "shared", "GPU")
    assert block["ref_cnt"]["value"] == 2
    assert block["slots"]["value"] == 16
    assert block["block_hash"] == dump.block_hash[shared].hex()
    assert [(h["request_id"], h["kind"], h["status"], h["leaked"]) for h in block["holders"]] == [
        ("first", "request", "running", False),
        ("second", "request", "running", False),
    ]
    kinds = [(event["kind"], event["request_id"]) for event in block["history"]]
    assert kinds[0] == ("BlockReferenced", "second")
    assert kinds[-1] == ("BlockAllocated", "first")
    assert block["taints"] == []
    assert block["age_s"]["value"] >= block["idle_s"]["value"] >= 0
    second_block = next(b for b in range(1, 65) if dump.ref_cnt[b] == 2 and b != shared)
    assert client.get(f"/api/blocks/{second_block}").json()["parent_block_hash"] == block["block_hash"]


def test_the_history_of_a_block_is_one_from_database_and_memory(client: TestClient, engine: SmallEngine) -> None:
    engine.work(60)
    caught_up(client, engine)
    whole = client.get("/api/blocks/3?history=200").json()["history"]
    assert backend_of(client).log.flush(5)
    again = client.get("/api/blocks/3?history=200").json()["history"]
    assert whole == again
    seqs = [int(event["seq"].split(".")[1]) for event in whole]
    assert seqs == sorted(set(seqs), reverse=True)


@pytest.mark.parametrize("block", ["65", "-1", "4000000000000"])
def test_a_block_that_does_not_exist(client: TestClient, engine: SmallEngine, block: str) -> None:
    engine.work(1)
    caught_up(client, engine)
    answer = client.get(f"/api/blocks/{block}")
    assert (answer.status_code, answer.json()) == (404, {"error": f"The source engine has no block {block}."})


def test_requests_and_the_blocks_they_hold(client: TestClient, engine: SmallEngine) -> None:
    engine.add("agent-07/3", prompt=100, output=3)
    engine.step(3)
    engine.add("agent 08", prompt=70, output=30)
    engine.step(4)
    caught_up(client, engine)
    table = client.get("/api/requests").json()
    assert table["total"] == 2
    rows = {row["request_id"]: row for row in table["requests"]}
    running, done = rows["agent 08"], rows["agent-07/3"]
    assert [row["request_id"] for row in table["requests"]] == ["agent 08", "agent-07/3"]
    request = next(iter(engine.engine.scheduler.running))
    assert running["status"] == "running"
    assert running["blocks"] == len(request.block_table)
    assert running["prompt_tokens"] == 70
    assert running["output_tokens"] == request.num_output_tokens
    assert running["hit_tokens"] == 32
    assert running["ttft_s"]["value"] > 0
    assert (done["status"], done["blocks"], done["output_tokens"]) == ("finished", 0, 3)
    assert client.get("/api/requests?status=finished").json()["total"] == 1
    assert len(client.get("/api/requests?limit=1").json()["requests"]) == 1
    view = client.get("/api/requests/agent%2008").json()
    assert view["block_table"] == request.block_table
    assert client.get("/api/requests/agent-07%2F3").json()["block_table"] == []


def test_a_request_says_how_long_it_waited_was_prefilled_and_decoded(client: TestClient, engine: SmallEngine) -> None:
    engine.add("agent", prompt=100, output=30)
    engine.step(6)
    caught_up(client, engine)
    events = client.get("/api/events?limit=1000").json()["events"]
    of = {event["kind"]: event["time"] for event in reversed(events) if event["request_id"] == "agent"}
    view = client.get("/api/requests/agent").json()
    waited, prefilled = view["waiting_s"]["value"], view["prefill_s"]["value"]
    assert waited + prefilled == pytest.approx(view["ttft_s"]["value"])
    first, last = (datetime.fromisoformat(time) for time in (of["TokensGenerated"], _last_token(events, "agent")))
    assert view["decode_s"]["value"] == pytest.approx((last - first).total_seconds(), abs=0.002)
    assert view["queried_tokens"] == 100


def _last_token(events: list[dict[str, str]], request: str) -> str:
    kinds = [event for event in events if event["request_id"] == request and event["kind"] == "TokensGenerated"]
    return kinds[-1]["time"]


def test_a_prefix_is_told_by_its_hash(client: TestClient, engine: SmallEngine) -> None:
    dump = dump_of_two_that_share(client, engine)
    shared = [block for block in range(1, 65) if dump.ref_cnt[block] == 2]
    chains = {block: client.get(f"/api/blocks/{block}/chain").json() for block in shared}
    last = max(shared, key=lambda block: len(chains[block]["before"]))
    block = client.get(f"/api/blocks/{last}").json()
    told = client.get(f"/api/prefixes/{block['block_hash']}").json()
    assert told["blocks"] == [last]
    assert [holder["request_id"] for holder in told["holders"]] == ["first", "second"]
    assert [link["block_id"] for link in told["before"]] + [last] == chains[last]["before"]
    assert told["before"][-1]["block_hash"] == block["parent_block_hash"]
    assert (told["num_before"], told["is_whole"]) == (len(chains[last]["before"]) - 1, True)
    assert told["tokens"]["value"] == 16 * len(chains[last]["before"])
    assert sum(branch["blocks"] for branch in told["branches"]) == len(chains[last]["after"])
    short = client.get(f"/api/prefixes/{block['block_hash']}", params={"limit": 1}).json()
    assert (short["before"], short["num_before"]) == (told["before"][-1:], told["num_before"])


def test_a_prefix_that_is_not_in_the_cache_is_no_error_and_nonsense_is_one_sentence(
    client: TestClient, engine: SmallEngine
) -> None:
    engine.work(3)
    caught_up(client, engine)
    told = client.get(f"/api/prefixes/{'00' * 32}").json()
    assert (told["blocks"], told["holders"], told["tokens"]["value"], told["is_whole"]) == ([], [], None, False)
    answer = client.get("/api/prefixes/zz")
    assert (answer.status_code, answer.json()) == (400, {"error": "Write the hash in hexadecimal, not 'zz'."})


def test_events_page_by_page_are_all_events_once(client: TestClient, engine: SmallEngine) -> None:
    engine.work(60)
    caught_up(client, engine)
    seen, at = [], "1.0"
    while True:
        page = client.get("/api/events", params={"from": at, "limit": 97}).json()
        if not page["events"]:
            break
        seen += [event["seq"] for event in page["events"]]
        at = page["next"]
    assert seen == [f"1.{seq}" for seq in range(engine.recorder.next_seq)]
    newest = client.get("/api/events", params={"limit": 10}).json()
    assert [event["seq"] for event in newest["events"]] == seen[-10:]
    assert newest["next"] == f"1.{engine.recorder.next_seq}"
    first = client.get("/api/events", params={"from": "1.1", "limit": 1}).json()["events"][0]
    assert (first["kind"], first["request_id"], first["cause"]) == ("RequestArrived", "request-1", "none")
    unknown = client.get("/api/events", params={"from": "2.0"})
    assert (unknown.status_code, unknown.json()) == (404, {"error": "The source engine has no epoch 2."})


def test_findings_name_a_leak_and_the_block_says_so(tmp_path: Path) -> None:
    with SmallEngine(leak=True) as engine, serving(tmp_path, source_of(engine)) as client:
        engine.add("victim", prompt=60, output=50)
        engine.step(3)
        engine.abort("victim")
        engine.step(3)
        found = until(lambda: client.get("/api/findings?state=open").json()["findings"], 15)
        assert [finding["kind"] for finding in found] == ["leak"]
        assert found[0]["sentence"].startswith("Leak: request victim, aborted ")
        blocks = found[0]["subjects"]["blocks"]
        state = client.get("/api/state").json()
        assert state["figures"]["leaked"]["value"] == len(blocks) == 4
        assert state["figures"]["leaked_only"]["value"] == found[0]["numbers"]["blocks_only"] == 4
        assert state["findings"] == [found[0]["id"]]
        block = client.get(f"/api/blocks/{blocks[0]}").json()
        assert [(h["request_id"], h["status"], h["leaked"]) for h in block["holders"]] == [("victim", "aborted", True)]
        row = client.get("/api/requests").json()["requests"][0]
        assert (row["request_id"], row["leaked_blocks"]) == ("victim", 4)
        assert client.get("/api/findings?state=ended").json()["findings"] == []


@pytest.mark.parametrize(
    "route",
    [
        "state",
        "state/blocks",
        "state/details",
        "state/order",
        "summary",
        "blocks/1",
        "blocks/1/chain",
        "requests",
        "requests/x",
        "events",
    ],
)
@pytest.mark.parametrize("at", ["7.20", "1.99999999", "1990-01-01T00:00:00Z"])
def test_a_moment_of_which_nothing_is_stored_is_told(
    client: TestClient, engine: SmallEngine, route: str, at: str
) -> None:
    engine.work(3)
    caught_up(client, engine)
    answer = client.get(f"/api/{route}", params={"at": at})
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_sharers_are_searched_only_for_who_asks(
    client: TestClient, engine: SmallEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def search(*holds: Any) -> Any:
        searched.append(len(holds[0]))
        return block_sharers.sharers_of_blocks(*holds)

    monkeypatch.setattr(block_details, "sharers_of_blocks", search)
    engine.work(3)
    caught_up(client, engine)
    assert client.get("/api/state/details").status_code == 200
    assert searched == []
    assert client.get("/api/state/details?sharers=1").status_code == 200
    assert client.get("/api/state/details").status_code == 200
    assert len(searched) == 1


@pytest.mark.parametrize("request_id", ["..", ".", "a/../b", "two\nlines", "turn/text", "turn/history", "%2e%2e", "-"])
def test_any_request_can_be_asked_for_by_an_id_in_the_query(
    client: TestClient, engine: SmallEngine, request_id: str
) -> None:
    engine.add(request_id)
    engine.step()
    caught_up(client, engine)
    told = client.get("/api/requests/-", params={"id": request_id}).json()
    assert told["request_id"] == request_id
    assert told["findings"] == []
    until(lambda: client.get("/api/requests/-/history", params={"id": request_id}).status_code == 200)
    events = client.get("/api/requests/-/history", params={"id": request_id}).json()["events"]
    assert {event["request_id"] for event in events} == {request_id}
    text = client.get("/api/requests/-/text", params={"id": request_id})
    assert (text.status_code, text.json()["error"]) == (404, "The source engine has no API that could tell the text.")


def test_an_id_in_the_query_is_bounded_as_one_in_the_path(client: TestClient) -> None:
    answer = client.get("/api/requests/-", params={"id": "x" * 513})
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_findings_say_how_many_there_are_and_ended_ones_come_whatever_is_open(tmp_path: Path) -> None:
    nobody = {"name": "engine", "events": f"ipc://{tmp_path}/e", "replay": f"ipc://{tmp_path}/r"}
    opened = [told_finding(at) for at in range(10, 15)]
    with serving(tmp_path, nobody) as client:
        backend = backend_of(client)
        for finding in [*opened, *(told_finding(at).ended(at + SECOND) for at in (1, 2, 3))]:
            backend.log.finding(row_of(finding))
        until(lambda: history.num_findings(backend.database, "engine") == 8)
        backend.sources["engine"].live.findings = tuple(opened)
        for state, newest, total in (("open", [14, 13], 5), ("ended", [3, 2], 3), ("all", [14, 13], 8)):
            told = client.get("/api/findings", params={"state": state, "limit": 2}).json()
            assert [finding["id"] for finding in told["findings"]] == [f"leak:engine:1:{at}" for at in newest]
            assert told["total"] == total


def test_findings_of_one_kind_are_counted_by_themselves(tmp_path: Path) -> None:
    nobody = {"name": "engine", "events": f"ipc://{tmp_path}/e", "replay": f"ipc://{tmp_path}/r"}
    gaps = [told_finding(at, "gap") for at in (1, 2, 3)]
    with serving(tmp_path, nobody) as client:
        backend = backend_of(client)
        for finding in [*gaps[:2], told_finding(4)]:
            backend.log.finding(row_of(finding.ended(finding.time_ns + SECOND)))
        until(lambda: history.num_findings(backend.database, "engine") == 3)
        backend.sources["engine"].live.findings = (gaps[2], told_finding(5))
        for kind, ids, total in (("gap", ["gap:engine:1:3"], 3), ("leak", ["leak:engine:1:5"], 2), ("drops", [], 0)):
            told = client.get("/api/findings", params={"kind": kind, "limit": 1}).json()
            assert ([finding["id"] for finding in told["findings"]], told["total"]) == (ids, total)


def told_finding(at: int, kind: str = "leak") -> Finding:
    return Finding(
        id=f"{kind}:engine:1:{at}", kind=kind, severity="critical", source="engine", epoch=1, seq0=1, seq1=1,
        time_ns=at, sentence="Leak: a request still holds blocks.",
    )  # fmt: skip


def test_the_api_describes_itself_and_its_page_loads_nothing(client: TestClient) -> None:
    description = client.get("/api/openapi.json").json()
    page = client.get("/api/docs")
    for path, methods in description["paths"].items():
        assert path in page.text
        for operation in methods.values():
            assert operation["description"]
            for parameter in operation.get("parameters", ()):
                assert parameter["description"], f"{path}: {parameter['name']}"
    for name, schema in description["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            if name not in ("HTTPValidationError", "ValidationError"):
                assert "$ref" in about or about.get("description"), f"{name}.{field}"
    for loading in ("<script", "<link", "src=", "http://", "https://", "@import", "url("):
        assert loading not in page.text


def test_components_are_served_and_python_is_not(client: TestClient) -> None:
    assert client.get("/assets/kvxray/__init__.py").status_code == 404
    assert client.get("/assets/kvxray/../main.py").status_code == 404
    script = client.get("/assets/kvxray/feed.js")
    assert script.status_code == 200
    assert "javascript" in script.headers["content-type"]
    assert script.headers["cache-control"] == "no-cache"
