"""Every page of the app, as the navigation names them: readable for everybody, and at home under a path of a site.

One backend under a base path for all of it: first with nothing to show, then with an engine, a leak and a history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.app.browser import PATIENCE_MS
from tests.e2e.demo_rig import until
from tests.e2e.pages import Tab
from tests.e2e.path_proxy import PathProxy
from tests.e2e.told_engine import ToldEngine, told_engine

pytestmark = pytest.mark.browser

BASE = "/tools/kvxray"
RULES = {"resultTypes": ["violations"], "preload": False}
CONTRAST = {**RULES, "runOnly": ["color-contrast"]}


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldEngine]:
    """Nothing was told yet."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KVXRAY_BASE_PATH", BASE)
        with told_engine(tmp_path_factory.mktemp("proxy")) as engine:
            yield engine


@pytest.fixture(scope="module")
def told(silent: ToldEngine) -> ToldEngine:
    silent.begin(leak=True)
    silent.work(60)
    until(lambda: _findings_after_more_work(silent))
    silent.caught_up()
    return silent


def _findings_after_more_work(engine: ToldEngine) -> list[Any]:
    engine.work(2)
    return list(engine.rig.get("findings")["findings"])


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, color_scheme="dark")
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def assert_accessible(page: Page, what: str, options: dict[str, Any]) -> None:
    found = Axe().run(page, options=options).response["violations"]
    grave = {
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    }
    assert not grave, f"{what}:\n" + "\n".join(sorted(grave))


def assert_all_accessible(tab: Tab, address: str) -> None:
    """All rules in the dark, and in the light those that depend on it."""
    tab.open(address)
    titles = tab.titles()
    assert len(titles) >= 3
    for title in titles:
        tab.turn_to(title)
        assert_accessible(tab.page, f"{title}, dark", RULES)
    tab.open(f"{address}attach")
    assert_accessible(tab.page, "Attach, dark", RULES)
    tab.page.emulate_media(color_scheme="light")
    tab.at_rest()
    assert_accessible(tab.page, "Attach, light", CONTRAST)
    for title in titles:
        tab.turn_to(title)
        assert_accessible(tab.page, f"{title}, light", CONTRAST)


def test_axe_finds_nothing_grave_where_there_is_nothing_yet(page: Page, silent: ToldEngine) -> None:
    assert_all_accessible(Tab(page), f"{silent.rig.url}/")


def test_axe_finds_nothing_grave_beside_an_engine(page: Page, told: ToldEngine) -> None:
    tab = Tab(page)
    assert_all_accessible(tab, f"{told.rig.url}/")
    assert_at_home(tab.asked, [urlsplit(address).path for address in tab.missing])


def test_axe_finds_nothing_grave_where_a_block_and_a_request_are_chosen(page: Page, told: ToldEngine) -> None:
    request = told.rig.get("requests")["requests"][0]["request_id"]
    tab = Tab(page)
    tab.open(f"{told.rig.url}/?block=1&request={request}")
    page.locator(".st-key-inspector h2", has_text="Block 1").wait_for()
    assert_accessible(page, "Live, with a block", RULES)


@pytest.mark.parametrize("strips", [True, False], ids=["path taken away", "path left"])
def test_behind_a_proxy_every_page_works_and_asks_for_nothing_outside_its_path(
    page: Page, told: ToldEngine, strips: bool
) -> None:
    with PathProxy(told.rig.url, BASE, strips).serving() as proxy:
        tab = Tab(page)
        tab.open(proxy.url + "/")
        wait_until_live(page)
        for title in tab.titles():
            tab.turn_to(title)
            leads_to = page.locator("a[href]").evaluate_all("links => links.map((link) => link.href)")
            assert not [address for address in leads_to if not address.startswith(f"{proxy.url}/")]
        here = page.url
        page.reload()
        tab.at_rest()
        assert page.url == here
        tab.open(f"{proxy.url}/fleet")
        page.get_by_role("link", name="Attach an engine").click()
        page.wait_for_url(f"{proxy.url}/attach")
        tab.at_rest()
        tab.open(f"{proxy.url}/?block=1")
        wait_until_live(page)
        page.wait_for_function("location.search.includes('block=1')")
        assert_at_home([path for path, _ in proxy.asked], [path for path, status in proxy.asked if status == 404])
        sockets = {path for path, status in proxy.asked if status == 101}
        assert sockets == {f"{BASE}/api/live", f"{BASE}/_stcore/stream"}
        assert not tab.errors
        page.goto("about:blank")


def wait_until_live(page: Page) -> None:
    page.wait_for_function("window.__kvxray?.status() === 'live' && __kvxray.counts() !== null")
    page.wait_for_function("__kvxray.map?.cellCentre(1) !== null")


def assert_at_home(asked: list[str], missing: list[str]) -> None:
    """All below the base path, and all there, also on a page's own address."""
    paths = {urlsplit(address).path for address in asked if not address.startswith(("data:", "blob:"))}
    assert len(paths) > 30
    assert not [path for path in paths if not path.startswith(f"{BASE}/")]
    assert not missing
