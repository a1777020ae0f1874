"""Two tenants on one engine, on the real page: whose the cache is, who pushed whom out, and which blocks those are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.demo_rig import until
from tests.e2e.pages import Tab
from tests.e2e.told_engine import ToldEngine, told_engine

pytestmark = pytest.mark.browser

NUM_BLOCKS = 65


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldEngine]:
    with told_engine(tmp_path_factory.mktemp("tenants"), NUM_BLOCKS) as engine:
        yield engine


@pytest.fixture(scope="module")
def before(engine: ToldEngine) -> dict[str, Any]:
    """Red has filled most of the cache, and nobody else was there."""
    engine.begin()
    serve(engine, "red", 3)
    return read(engine)


@pytest.fixture(scope="module")
def after(engine: ToldEngine, before: dict[str, Any]) -> dict[str, Any]:
    """Blue came, and there was no room."""
    serve(engine, "blue", 3)
    return read(engine)


def serve(engine: ToldEngine, salt: str, requests: int) -> None:
    small = engine.engine
    assert small is not None
    for number in range(requests):
        small.add(f"{salt}-{number}", prompt=300, output=4, salt=salt)
        small.finish()
    engine.caught_up()


def read(engine: ToldEngine) -> dict[str, Any]:
    """Once the log has all of it: an answer may be a second old, and what was read for it four."""
    last = engine.rig.get("sources")["sources"][0]["last_seq"]

    def told() -> dict[str, Any] | None:
        view: dict[str, Any] = engine.rig.get("tenants", source="engine")
        return view if view["evictions"] and view["evictions"]["until"] == view["seq"] == last else None

    view: dict[str, Any] = until(told)
    return view


def amounts(view: dict[str, Any]) -> dict[str, int]:
    return {one["tenant"]: one["amount"] for one in view["cached"]["tenants"]}


def test_the_overview_tells_who_fills_the_cache_and_who_pushed_whom_out(
    engine: ToldEngine, tab: Tab, after: dict[str, Any]
) -> None:
    pair = after["evictions"]["pairs"][0]
    red, blue = pair["lost"]["tenant"], pair["took"]["tenant"]
    assert pair["blocks"] > 0
    turnover = next(one for one in after["evictions"]["tenants"] if one["tenant"] == blue)
    tab.open(f"{engine.rig.url.rstrip('/')}/overview")
    row = tab.page.locator(".tenants tbody tr", has_text=blue[:8])
    expect(row.locator("td").nth(1)).to_contain_text(str(amounts(after)[blue]))
    # At a moment, since the minute goes on.
    tab.open(f"{engine.rig.url.rstrip('/')}/overview?source=engine&at={after['seq']}")
    expect(row.locator("td").nth(2)).to_have_text(str(turnover["took"]))
    expect(tab.page.locator(".tenants-pairs li").first).to_contain_text(red[:8])
    expect(tab.page.locator(".tenants-pairs li").first).to_contain_text(f"{pair['blocks']} blocks")


def test_a_row_leads_to_the_map_with_all_blocks_of_the_tenant_marked(tab: Tab, after: dict[str, Any]) -> None:
    page = tab.page
    blue = after["evictions"]["pairs"][0]["took"]["tenant"]
    page.locator(".tenants tbody tr", has_text=blue[:8]).get_by_role("link").click()
    page.wait_for_url("**/?source=engine&at=*&whose=salt*")
    expect(page.locator(".lit")).to_contain_text(f"{amounts(after)[blue]} blocks")
    expect(page.locator(".tenants tr[data-chosen]")).to_contain_text(blue[:8])
    page.locator(".tenants tr[data-chosen]").get_by_role("button").click()
    expect(page.locator(".lit")).to_be_hidden()


def test_a_moment_before_shows_whose_it_was_then(
    engine: ToldEngine, tab: Tab, before: dict[str, Any], after: dict[str, Any]
) -> None:
    pair = after["evictions"]["pairs"][0]
    red, blue = pair["lost"]["tenant"], pair["took"]["tenant"]
    tab.open(f"{engine.rig.url.rstrip('/')}/?source=engine&at={before['seq']}&whose=salt:{red}")
    expect(tab.page.locator(".lit")).to_contain_text(f"{amounts(before)[red]} blocks")
    expect(tab.page.locator(".tenants tbody tr", has_text=blue[:8])).to_have_count(0)
    expect(tab.page.locator(".tenants .panel-head")).to_contain_text(f"as of event {before['seq']}")
