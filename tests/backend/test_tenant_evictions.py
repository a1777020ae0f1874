"""Who pushed whom out of the cache: recounted by hand from stories, and told by the route of a real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from kvxray_backend.analysis.block_owners import BlockOwners, owners_of
from kvxray_backend.analysis.tenant_evictions import MOST_TOLD, TenantEvictions, Turnover, evictions_by_tenant
from kvxray_backend.analysis.tenant_shares import Tenant
from kvxray_backend.tenant_views import MAX_RUNS, runs_of
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind

from tests.backend.served import caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.told import SECOND, Story

RED, BLUE = Tenant("salt", "red"), Tenant("salt", "blue")


def evict(story: Story, taker: str, *blocks: int, cause: Cause = Cause.allocation) -> None:
    """As an engine tells it: evicted for who is given the blocks next."""
    req = story.of(taker) if taker else NO_ORDINAL
    story.begin().rows(Kind.BlockEvicted, cause, req, list(blocks))


def crowded() -> Story:
    """Two tenants and one who tells nothing; blocks 1 to 4 of red, 5 of nobody that is told, then blue comes."""
    story = Story(num_blocks=12)
    story.arrive("a", salt="red")
    story.arrive("n")
    story.arrive("b", salt="blue")
    story.allocate("a", 1, 2, 3, 4)
    story.allocate("n", 5)
    story.cache("a", 1, 2, 3, 4)
    story.cache("n", 5)
    story.free("a", 1, 2, 3, 4)
    story.free("n", 5)
    story.step(seconds=10)
    evict(story, "b", 1, 2, 5)
    story.allocate("b", 1, 2, 5)
    evict(story, "a", 3)
    story.allocate("a", 3)
    evict(story, "", 4, cause=Cause.explicit)
    story.cache("b", 1, 2, 5)
    story.free("b", 1, 2, 5)
    story.step(seconds=10)
    evict(story, "a", 1)
    story.allocate("a", 1)
    evict(story, "n", 2)
    story.allocate("n", 2)
    story.step()
    return story


def counted(owners: BlockOwners | None, since_ns: int = 0) -> TenantEvictions:
    assert owners is not None
    return evictions_by_tenant(owners.room_made.since(since_ns), owners.names)


def test_who_lost_and_who_took_is_counted_of_each_eviction_that_made_room() -> None:
    found = counted(owners_of(crowded().messages, 12))
    # For blue 1, 2 and 5; for red its own 3, and 1 of blue; for who tells nothing 2 of blue. 4 was dropped on purpose.
    assert found.num == 6
    assert found.tenants == (Turnover(BLUE, lost=2, lost_to_others=1, took=3), Turnover(RED, 3, 2, 2))
    assert found.pairs == ((RED, BLUE, 2), (BLUE, RED, 1))
    assert (found.lost_not_told, found.lost_unknown, found.took_not_told, found.took_unknown) == (1, 0, 1, 0)


def test_only_the_time_that_is_asked_for_counts_and_whose_a_block_was_is_known_from_before() -> None:
    story = crowded()
    found = counted(owners_of(story.messages, 12), story.clock.now - 5 * SECOND)
    assert found.num == 2
    assert found.tenants == (Turnover(BLUE, 2, 1, 0), Turnover(RED, 0, 0, 1))
    # Of what comes after it alone, nothing tells whose the blocks were.
    alone = counted(owners_of(story.messages[2:], 12))
    assert (alone.num, alone.lost_unknown, alone.pairs) == (2, 2, ())


def test_whose_nobody_is_named_is_unknown_and_blocks_that_are_none_are_left_out() -> None:
    story = crowded()
    owners = owners_of(story.messages, 12)
    assert owners is not None
    nameless = evictions_by_tenant(owners.room_made, {})
    assert (nameless.tenants, nameless.lost_unknown, nameless.took_unknown) == ((), 6, 6)
    fewer = owners_of(story.messages, 3)
    assert fewer is not None
    assert (len(fewer.holders), counted(fewer).num) == (3, 4)
    assert owners_of([], 3) is None
    assert (owners.until_seq, owners.until_ns) == (story.map.next_seq - 1, story.map.t_ns)


def test_of_hundreds_of_tenants_those_of_most_are_told_and_the_others_counted() -> None:
    num = MOST_TOLD + 20
    story = Story(num_blocks=num + 1)
    for at in range(1, num + 1):
        story.arrive(f"r{at}", salt=f"s{at:03}")
        story.allocate(f"r{at}", at)
        story.cache(f"r{at}", at)
        story.free(f"r{at}", at)
    story.arrive("b", salt="blue")
    evict(story, "b", *range(1, num + 1))
    story.allocate("b", *range(1, num + 1))
    story.step()
    found = counted(owners_of(story.messages, num + 1))
    assert (len(found.tenants), found.num_others, len(found.pairs)) == (MOST_TOLD, num + 1 - MOST_TOLD, MOST_TOLD)
    assert found.tenants[0] == Turnover(BLUE, lost=0, lost_to_others=0, took=num)


def test_ids_are_told_as_runs_and_those_beyond_the_most_are_counted() -> None:
    assert runs_of(np.array([9, 5, 6, 7, 1], np.uint32)) == ([(1, 1), (5, 3), (9, 1)], 0)
    assert runs_of(np.zeros(0, np.uint32)) == ([], 0)
    runs, left_out = runs_of(np.arange(0, 2 * (MAX_RUNS + 7), 2, dtype=np.uint32))
    assert (len(runs), runs[-1], left_out) == (MAX_RUNS, (2 * (MAX_RUNS - 1), 1), 7)


def test_the_route_tells_who_pushed_whom_out_now_and_then(tmp_path: Path) -> None:
    with SmallEngine(num_blocks=17) as engine, serving(tmp_path, source_of(engine)) as http:
        engine.add("a", prompt=160, output=8, salt="red")
        engine.finish()
        engine.add("b", prompt=200, output=8, salt="blue")
        engine.finish()
        caught_up(http, engine)
        view = until(lambda: read(http))
        red, blue = digests(view)
        turnover = {one["tenant"]: one for one in view["evictions"]["tenants"]}
        num = view["evictions"]["num"]
        assert num == evicted(http) > 0
        assert turnover[red] == {"tenant": red, "told_by": "salt", "lost": num, "lost_to_others": num, "took": 0}
        assert turnover[blue]["took"] == num
        lost, took = ({"tenant": one, "told_by": "salt"} for one in (red, blue))
        assert view["evictions"]["pairs"] == [{"lost": lost, "took": took, "blocks": num}]
        then = http.get(f"/api/tenants?at={view['seq']}").json()
        assert (then["cached"], then["evictions"]["pairs"]) == (view["cached"], view["evictions"]["pairs"])
        # The blocks of each are told, all of them, each of one only.
        ids = [blocks(http, tenant, view["seq"]) for tenant in (red, blue)]
        amounts = {one["tenant"]: one["amount"] for one in view["cached"]["tenants"]}
        assert [len(one) for one in ids] == [amounts.get(red, 0), amounts[blue]]
        assert not set(ids[0]) & set(ids[1])
        assert blocks(http, "<script>", view["seq"]) == []
        assert http.get("/api/tenants?by=nobody").status_code == 422


def read(http: TestClient) -> dict[str, Any] | None:
    """Once the log has all of it, and what was read before is asked for anew."""
    view: dict[str, Any] = http.get("/api/tenants").json()
    return view if view["evictions"] and view["evictions"]["until"] == view["seq"] else None


def digests(view: dict[str, Any]) -> tuple[str, str]:
    """Red lost, blue took."""
    pair = view["evictions"]["pairs"][0]
    return pair["lost"]["tenant"], pair["took"]["tenant"]


def evicted(http: TestClient) -> int:
    events = http.get("/api/events?from=1.0&limit=1000").json()["events"]
    return sum(one["kind"] == "BlockEvicted" for one in events)


def blocks(http: TestClient, tenant: str, at: str) -> list[int]:
    asked = {"whose": "salt", "tenant": tenant, "at": at}
    runs = http.get("/api/tenants/blocks", params=asked).json()["runs"]
    return [first + place for first, num in runs for place in range(num)]
