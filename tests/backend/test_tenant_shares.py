"""Whose the blocks are that are held and cached, and the hashes: what is shared once, what is not told as that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from kvxray_backend.analysis.block_owners import owners_of
from kvxray_backend.analysis.tenant_shares import Shares, Tenant, copied, shares_of_blocks, told_by_any
from kvxray_backend.block_tenants import MOST_TENANTS
from kvxray_backend.residency.tenants import _inherited
from kvxray_engine.stream.holder_log import ANONYMOUS

from tests.backend.served import caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.test_residency_routes import payload, removed, stored, watched
from tests.backend.told import Story


def test_blocks_of_one_several_and_nobody_are_each_counted_once() -> None:
    story = Story(num_blocks=12)
    story.arrive("a", salt="red", session="1")
    story.arrive("b", salt="red", session="2")
    story.arrive("c", lora="x", session="3")
    story.arrive("d")
    story.allocate("a", 1, 2, 3, 4, 9)
    story.cache("a", 1, 2, 9)
    story.refer("b", 1)  # of the same tenant
    story.refer("c", 2)
    story.allocate("c", 5)
    story.allocate("d", 6, 7)
    story.cache("d", 6)
    story.free("a", 9)
    story.step()
    shares = shares_of_blocks(copied(story.map))
    red, x = Tenant("salt", "red"), Tenant("lora", "x")
    assert shares.held == Shares(((red, 3), (x, 1)), others=0, several=1, not_told=2, unknown=0)
    assert shares.held.total == 7
    assert shares.cached == Shares(((red, 1),), others=0, several=1, not_told=1, unknown=1)
    assert shares.unknown_blocks == 0


def test_what_nobody_holds_any_more_is_of_who_allocated_it() -> None:
    story = Story(num_blocks=8)
    story.arrive("a", salt="red")
    story.allocate("a", 1, 2, 3)
    story.cache("a", 1, 2, 3)
    story.step(seconds=1)
    story.arrive("b", salt="blue")
    story.refer("b", 3)
    story.free("a", 1, 2)
    story.step(seconds=1)
    owners = owners_of(story.messages, 8)
    told, red, blue = copied(story.map), Tenant("salt", "red"), Tenant("salt", "blue")
    shares = shares_of_blocks(told, owners)
    assert shares.cached == Shares(((red, 2),), others=0, several=1, not_told=0, unknown=0)
    assert shares.held == Shares((), others=0, several=1, not_told=0, unknown=0), "who holds it is not who had it"
    # What was read does not tell of the last allocation of block 1: whose it is, is not known.
    story.evict(1)
    story.allocate("b", 1)
    story.cache("b", 1)
    story.free("b", 1)
    story.step()
    later = shares_of_blocks(copied(story.map), owners)
    assert (later.cached.tenants, later.cached.unknown) == (((red, 1),), 1)
    assert shares_of_blocks(copied(story.map), owners_of(story.messages, 8)).cached.tenants == ((blue, 1), (red, 1))


def test_what_is_asked_for_alone_makes_a_tenant() -> None:
    story = Story(num_blocks=8)
    story.arrive("a", tenant="t", salt="red", lora="x")
    story.arrive("b", lora="x")
    story.allocate("a", 1, 2)
    story.allocate("b", 3)
    story.step()
    told = copied(story.map)
    assert told_by_any(told.names) == ("tenant", "salt", "lora")
    assert shares_of_blocks(told).held.tenants == ((Tenant("tenant", "t"), 2), (Tenant("lora", "x"), 1))
    by_adapter, by_session = shares_of_blocks(told, by="lora").held, shares_of_blocks(told, by="session").held
    assert by_adapter.tenants == ((Tenant("lora", "x"), 3),)
    assert (by_session.tenants, by_session.not_told) == ((), 3)


def test_who_is_not_known_is_unknown_and_after_a_gap_all_is() -> None:
    story = Story(num_blocks=6)
    story.arrive("a", tenant="t", salt="red")
    story.allocate("a", 1)
    story.step()
    story.map.holders.extend(np.array([2], np.uint32), np.array([ANONYMOUS], np.uint32), np.zeros(1, bool))
    story.map.ref[2] = 1
    held = shares_of_blocks(copied(story.map)).held
    assert held == Shares(((Tenant("tenant", "t"), 1),), others=0, several=0, not_told=0, unknown=1)
    story.map.forget()
    lost = shares_of_blocks(copied(story.map))
    assert (lost.held.total, lost.cached.total, lost.unknown_blocks) == (0, 0, 5)


def test_tenants_beyond_the_largest_are_counted_together() -> None:
    story = Story(num_blocks=MOST_TENANTS + 5)
    for block in range(1, MOST_TENANTS + 4):
        story.arrive(f"r{block}", salt=f"s{block}")
        story.allocate(f"r{block}", block)
    story.step()
    held = shares_of_blocks(copied(story.map)).held
    assert (len(held.tenants), held.others, held.total) == (MOST_TENANTS, 3, MOST_TENANTS + 3)
    assert held.num_others == 3


def test_the_nearest_before_counts_however_far_it_is() -> None:
    above = np.arange(-1, 999)
    codes = np.full(1000, -1)
    codes[[0, 700]] = 4, 5
    assert _inherited(codes, above).tolist() == [4] * 700 + [5] * 300
    above[300] = -2  # what came before is not known
    assert _inherited(codes, above).tolist() == [4] * 300 + [-3] * 400 + [5] * 300


def test_a_salt_told_with_the_first_block_is_that_of_the_whole_chain(tmp_path: Path) -> None:
    told = payload(
        {**stored([1, 2, 3]), "cache_salt": "red"},
        stored([4], parent=3),
        {**stored([10, 11]), "lora_name": "x"},
        stored([20]),
        stored([31], parent=30),  # its beginning was not told
        {**stored([41, 42]), "cache_salt": "blue"},
        removed(1, 42),
    )
    with watched(tmp_path, told) as http:
        view = http.get("/api/tenants?source=e").json()
        assert (view["unit"], view["held"], view["unknown_blocks"]) == ("hashes", None, 0)
        cached = view["cached"]
        amounts = [(one["told_by"], one["amount"]) for one in cached["tenants"]]
        assert amounts == [("salt", 3), ("lora", 2), ("salt", 1)]
        assert cached["tenants"][0]["share"] == pytest.approx(3 / 8)
        assert (cached["several"], cached["not_told"], cached["unknown"], cached["total"]) == (0, 1, 1, 8)
        assert "red" not in str(view)
        assert until(lambda: _then(http, view)) == view
        assert (view["told"], view["by"], cached["certainty"]) == (["salt", "lora"], None, "derived")
        assert (view["evictions"], view["no_evictions"][:9]) == (None, "An engine")
        by_adapter = http.get("/api/tenants?source=e&by=lora").json()["cached"]
        assert [(one["told_by"], one["amount"]) for one in by_adapter["tenants"]] == [("lora", 2)]
        assert by_adapter["not_told"] == 6
        red = {"source": "e", "whose": "salt", "tenant": cached["tenants"][0]["tenant"]}
        marked = http.get("/api/tenants/blocks", params=red).json()
        assert (marked["unit"], marked["num"], marked["left_out"]) == ("hashes", 3, 0)
        ordinals = [first + at for first, num in marked["runs"] for at in range(num)]
        hashes = [http.get(f"/api/residency/hash?source=e&ordinal={one}").json()["hash"] for one in ordinals]
        assert [int(one, 16) for one in hashes] == [2, 3, 4], "1 is gone, and 4 follows on 3"
        lost = http.get("/api/tenants/blocks?source=e&whose=unknown").json()
        assert (lost["num"], http.get("/api/tenants/blocks?source=e&whose=nobody").status_code) == (1, 422)


def test_the_route_tells_of_blocks_now_and_then(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        engine.add("a", prompt=64, output=40, salt="red")
        engine.add("b", prompt=64, output=40, salt="blue")
        engine.step(6)
        caught_up(http, engine)
        now = http.get("/api/tenants").json()
        assert now["unit"] == "blocks"
        assert [one["told_by"] for one in now["held"]["tenants"]] == ["salt", "salt"]
        used = sum(http.get(f"/api/requests/{one}").json()["blocks"] for one in "ab")
        assert now["held"]["total"] == used > 0
        assert now["held"]["several"] == 0
        engine.finish()
        caught_up(http, engine)
        assert until(lambda: _then(http, now))["held"] == now["held"]
        over = until(lambda: _all_is_read(http))
        assert (over["held"]["total"], over["held"]["tenants"]) == (0, [])
        # Both began alike and what they have in common was computed by one of them: salts part what they share.
        assert (over["cached"]["unknown"], len(over["cached"]["tenants"])) == (0, 2)
        assert sum(one["amount"] for one in over["cached"]["tenants"]) == over["cached"]["total"] > 0


def test_what_nobody_knows_is_said_in_one_sentence(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        assert http.get("/api/tenants?source=nobody").status_code == 404
        assert http.get("/api/tenants?at=99.1").status_code == 404


def _then(http: TestClient, view: dict[str, Any]) -> dict[str, Any] | None:
    """The same of the past, once it is stored."""
    answer = http.get(f"/api/tenants?source={view['source']}&at={view['seq']}")
    return answer.json() if answer.status_code == 200 else None


def _all_is_read(http: TestClient) -> dict[str, Any] | None:
    """What is committed to the log is told, once it is asked for anew."""
    view: dict[str, Any] = http.get("/api/tenants").json()
    last = http.get("/api/sources").json()["sources"][0]["last_seq"]
    return view if view["evictions"] and view["evictions"]["until"] == view["seq"] == last else None
