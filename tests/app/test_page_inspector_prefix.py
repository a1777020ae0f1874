"""A prefix in the inspector, in a real browser: who holds it, what leads to it, what follows, what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.map_probe import SHARED, block_answer, open_at
from tests.app.scripted_backend import ScriptedBackend, figure
from tests.app.test_page_inspector_request import SHOWN, TITLE, fact
from tests.app.test_page_panels import event

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
HASH, PARENT, NEXT = "ab" * 32, "cd" * 32, "ef" * 32


def link(block: int, block_hash: str) -> dict[str, Any]:
    return {"block_id": block, "block_hash": block_hash, "ref_cnt": 2}


def prefix_answer(backend: ScriptedBackend, **more: Any) -> None:
    """The backend tells of a prefix of three blocks, on which two others follow."""
    holder = {"holder": 1, "request_id": "agent-1", "kind": "request", "status": "running", "leaked": False}
    backend.answers[f"prefixes/{HASH}"] = {
        "block_hash": HASH,
        "blocks": [6],
        "holders": [holder, {**holder, "holder": 2, "request_id": "agent-2"}],
        "tokens": figure(48, "tokens"),
        "is_whole": True,
        "before": [link(2, "00" * 32), link(4, PARENT)],
        "num_before": 2,
        "branches": [{**link(7, NEXT), "blocks": 2}],
        "num_branches": 1,
        "taints": [],
        **more,
    }  # fmt: skip
    then = event(40, "BlockEvicted", block_id=5, cause="capacity")
    backend.answers[f"hashes/{HASH}"] = {
        "block_hash": HASH,
        "epoch": 1,
        "stays": [
            {"block_id": 6, "hits": 3, "since": event(50, "BlockCached"), "until": None, "lost_after": None},
            {"block_id": 5, "hits": 1, "since": event(10, "BlockCached"), "until": then, "lost_after": None},
        ],
    }


def open_prefix(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    open_at(page, backend, f"prefix={HASH}")
    mount("inspector")
    page.wait_for_function(f"{TITLE} === 'Prefix' && {SHOWN}.querySelectorAll('.events li').length === 2")
    page.wait_for_function(f"{SHOWN}.querySelector('.meaning').textContent !== ''")


def test_permalink_opens_on_its_prefix(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(6, SHARED, 2, 16)
    prefix_answer(backend)
    open_prefix(page, backend, mount)
    assert page.evaluate(f"{SHOWN}.querySelector('.meaning').textContent") == "It is in the cache, held by 2."
    names = ("Tokens", "Holders", "Blocks before it", "Blocks beyond it", "Hits so far")
    assert [fact(page, name) for name in names] == ["48", "2", "2", "2 in 1 branch", "4"]
    assert page.evaluate(f"{SHOWN}.querySelector('.whole').textContent") == HASH
    squares = page.evaluate(f"[...{SHOWN}.querySelectorAll('.squares')].map(row => row.children.length)")
    assert squares == [1, 2]
    stays = page.evaluate(f"[...{SHOWN}.querySelectorAll('.events li')].map(row => row.innerText)")
    words = [["block 6, 3 hits", "still there"], ["block 5, 1 hit", "until BlockEvicted, capacity at"]]
    assert [[part in stay for part in parts] for stay, parts in zip(stays, words, strict=True)] == [[True, True]] * 2


def test_from_prefix_to_prefix_along_its_chain(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    prefix_answer(backend)
    open_prefix(page, backend, mount)
    page.evaluate(f"{SHOWN}.querySelector('.branches .hash').click()")
    page.wait_for_function(f"location.search === '?prefix={NEXT}'")
    page.wait_for_function("inside('inspector', '.problem').textContent === 'There is no such thing.'")
    page.go_back()
    page.wait_for_function(f"{SHOWN}?.querySelector('dl .hash')")
    page.evaluate(f"{SHOWN}.querySelector('dl .hash').click()")
    page.wait_for_function(f"location.search === '?prefix={PARENT}'")


def test_from_a_block_to_its_prefix_and_to_a_block_of_its_chain(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    prefix_answer(backend)
    backend.answers["blocks/6"] = block_answer(6)
    open_at(page, backend, "block=6")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('dl .hash')")
    page.evaluate(f"{SHOWN}.querySelector('dl .hash').click()")
    page.wait_for_function(f"{TITLE} === 'Prefix' && location.search === '?prefix={HASH}'")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 3")
    page.evaluate(f"{SHOWN}.querySelectorAll('.squares')[1].children[1].click()")
    page.wait_for_function(f"{TITLE} === 'Block 4' && location.search === '?block=4'")


def test_a_prefix_lights_up_its_chain(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    prefix_answer(backend)
    backend.answers["blocks/6/chain"] = {"block_id": 6, "before": [2, 4, 6], "after": [7, 8]}
    open_at(page, backend, f"prefix={HASH}")
    mount("block_map")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.chain') && !{SHOWN}.querySelector('.chain').hidden")
    page.evaluate(f"{SHOWN}.querySelector('.chain button').click()")
    page.wait_for_function("inside('block_map', '.lit').textContent.startsWith('chain of block 6 · 5 blocks')")


def test_a_prefix_that_is_gone_says_so_and_what_took_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    prefix_answer(
        backend, blocks=[], holders=[], tokens=figure(None, "tokens"), is_whole=False, before=[], num_before=0,
        branches=[], num_branches=0,
    )  # fmt: skip
    gone = backend.answers[f"hashes/{HASH}"]["stays"]
    gone[0]["lost_after"] = "1.60"
    open_prefix(page, backend, mount)
    assert page.evaluate(f"{SHOWN}.querySelector('.meaning').textContent") == "It is not in the cache."
    names = ("Tokens", "Holders", "Blocks before it", "Blocks beyond it", "Cached since")
    assert [fact(page, name) for name in names] == ["—"] * 5
    assert fact(page, "Hits so far") == "4 or more"
    assert "messages are missing after event 1.60" in page.evaluate(f"{SHOWN}.querySelector('.events').innerText")


def test_a_chain_without_its_beginning_is_not_counted_as_whole(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    prefix_answer(backend, is_whole=False, tokens=figure(None, "tokens"))
    open_prefix(page, backend, mount)
    assert (fact(page, "Tokens"), fact(page, "Blocks before it")) == ("—", "2 or more")
    assert "Its beginning is not: no prompt can hit it." in page.evaluate(
        f"{SHOWN}.querySelector('.meaning').textContent"
    )


def test_arrows_walk_along_a_row_of_blocks(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    prefix_answer(backend)
    open_prefix(page, backend, mount)
    page.evaluate(f"{SHOWN}.querySelectorAll('.squares')[1].children[0].focus()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{TITLE} === 'Block 4'")


@pytest.mark.parametrize(("takes", "pauses"), [(0, [2500, 2500]), (4000, [36_000, 4000])])
def test_what_takes_long_to_answer_is_asked_for_seldom(page: Page, takes: int, pauses: list[int]) -> None:
    """A tenth of the time at most goes into answers; half of it where the page went to another moment."""
    told = page.evaluate(
        """async takes => {
          const { Answers } = await import("/assets/kvxray/inspect_answers.js");
          let now = 0, at, answered;
          const pauses = [];
          performance.now = () => now;
          window.fetch = async () => { now += takes; return new Response("{}"); };
          const feed = { query: more => ({ at, ...more }) };
          const answers = new Answers(feed, () => answered(), 2500);
          const first = new Promise(resolve => { answered = resolve; });
          answers.turnTo("slow");
          await first;
          window.setTimeout = (_, pause) => pauses.push(pause);
          answers.again();
          answers.again();
          at = "1.5";
          answers.follow();
          return pauses;
        }""",
        takes,
    )
    assert told == pauses
