"""Whose the blocks are that are held and cached, and the hashes: what is shared once, what is not told as that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kvxray_backend.analysis.tenant_shares import Shares, Tenant, copied, shares_of_blocks
from kvxray_backend.block_tenants import MOST_TENANTS
from kvxray_backend.residency.tenants import _inherited
from kvxray_engine.stream.holder_log import ANONYMOUS

from tests.backend.served import caught_up, serving, source_of
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
        past = http.get(f"/api/tenants?source=e&at={view['seq']}").json()
        assert past == view


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
        assert http.get(f"/api/tenants?at={now['seq']}").json() == now
        over = http.get("/api/tenants").json()
        assert (over["held"]["total"], over["held"]["tenants"]) == (0, [])
        assert over["cached"]["unknown"] == over["cached"]["total"] > 0


def test_what_nobody_knows_is_said_in_one_sentence(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        assert http.get("/api/tenants?source=nobody").status_code == 404
        assert http.get("/api/tenants?at=99.1").status_code == 404
