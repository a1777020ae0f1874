"""What became of a hash, a prefix and a request, told over the API out of what is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.backend.past_told import all_events, moments
from tests.backend.served import backend_of, caught_up
from tests.backend.small_engine import SmallEngine


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(leak=True) as engine:
        yield engine


def test_what_became_of_a_hash_is_told(client: TestClient, engine: SmallEngine) -> None:
    moments(client, engine, 3)
    assert backend_of(client).log.flush(5)
    rows = all_events(client)
    cached = next(row for row in rows if row["kind"] == "BlockCached")
    block = client.get(f"/api/blocks/{cached['block_id']}", params={"at": cached["seq"]}).json()
    told = client.get(f"/api/hashes/{block['block_hash']}").json()
    first = told["stays"][-1]
    assert (first["block_id"], first["since"]["seq"]) == (cached["block_id"], cached["seq"])
    of_block = [row for row in rows if row["block_id"] == cached["block_id"] and row["seq"] != cached["seq"]]
    later = [row for row in of_block if int(row["seq"][2:]) > int(cached["seq"][2:])]
    ends = [row for row in later if row["kind"] in ("BlockEvicted", "BlockAllocated", "BlockCached")]
    assert first["until"] == (ends[0] if ends else None)
    end = int(ends[0]["seq"][2:]) if ends else 10**9
    assert first["hits"] == sum(row["kind"] == "BlockReferenced" and int(row["seq"][2:]) < end for row in later)
    at_once = client.get(f"/api/hashes/{block['block_hash']}", params={"at": cached["seq"]}).json()["stays"]
    assert [(stay["until"], stay["hits"]) for stay in at_once] == [(None, 0)]


def test_a_prefix_of_the_past_is_what_it_was(client: TestClient, engine: SmallEngine) -> None:
    """Also where the state of the past brings no bytes of hashes, so that the log has to tell them."""
    engine.add("mine", prompt=70, output=5)
    engine.step(4)
    caught_up(client, engine)
    now = client.get("/api/state").json()["seq"]
    (request,) = engine.engine.scheduler.running
    hashes = [client.get(f"/api/blocks/{block}").json()["block_hash"] for block in request.block_table]
    told = [client.get(f"/api/prefixes/{block_hash}").json() for block_hash in hashes if block_hash]
    assert len(told) >= 2
    engine.work(40)
    caught_up(client, engine)
    assert backend_of(client).log.flush(5)
    for then in told:
        past = client.get(f"/api/prefixes/{then['block_hash']}", params={"at": now}).json()
        assert {**past, "tokens": None} == {**then, "tokens": None}
        assert past["tokens"]["value"] == then["tokens"]["value"]


@pytest.mark.parametrize(("block_hash", "status"), [("zz", 400), ("abc", 400), ("00" * 32, 200), ("0" * 65, 422)])
def test_a_hash_that_is_none(client: TestClient, engine: SmallEngine, block_hash: str, status: int) -> None:
    engine.work(3)
    caught_up(client, engine)
    assert backend_of(client).log.flush(5)
    answer = client.get(f"/api/hashes/{block_hash}")
    assert answer.status_code == status
    assert answer.json().get("stays", []) == []


def test_the_history_of_a_request_that_is_long_over(client: TestClient, engine: SmallEngine) -> None:
    engine.add("mine", prompt=70, output=5)
    moments(client, engine, 2)
    assert backend_of(client).log.flush(5)
    told = client.get("/api/requests/mine/history", params={"limit": 1000}).json()["events"]
    assert told == [row for row in all_events(client) if row["request_id"] == "mine"]
    assert told[0]["kind"] == "RequestArrived"
    assert client.get("/api/requests/nobody/history").status_code == 404
