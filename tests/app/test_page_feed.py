"""The live feed in a real browser: the viewer's rule, one socket a page, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
EMPTY, FREE, CACHED, ACTIVE, SHARED = 1, 2, 3, 4, 5


def counts(page: Page) -> dict[str, int]:
    found: dict[str, int] = page.evaluate("__kvxray.counts()")
    return found


def wait_for_seq(page: Page, epoch: int, seq: int) -> None:
    page.wait_for_function("([e, s]) => __kvxray.epoch() === e && __kvxray.seq() === s", arg=[epoch, seq])


def test_snapshot_then_deltas_give_the_state_of_the_engine(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(3, ACTIVE, 1, 16)
    mount("block_map")
    assert counts(page) == {"unknown": 0, "empty": 7, "free": 0, "cached": 0, "active": 1, "shared": 0}

    backend.set_block(3, SHARED, 2, 16, flags=4)
    backend.set_block(4, ACTIVE, 1, 5)
    backend.send_delta([3, 4])
    wait_for_seq(page, 1, 101)
    assert counts(page) == {"unknown": 0, "empty": 6, "free": 0, "cached": 0, "active": 1, "shared": 1}
    assert backend.snapshots_served == 1


def test_delta_applied_twice_does_no_harm(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    backend.set_block(2, ACTIVE, 1, 3, flags=1)
    frame = backend.delta([2], 100, 101)
    backend.seq = 101
    backend.send(frame)
    backend.send(frame)
    wait_for_seq(page, 1, 101)
    backend.send_delta([2])
    wait_for_seq(page, 1, 102)
    assert counts(page)["active"] == 1
    assert page.evaluate("__kvxray.leaked()") == 1


def test_missing_delta_is_made_good_by_a_snapshot(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    backend.set_block(1, CACHED, 0, 16, flags=4)
    backend.seq += 7  # a delta that never arrives
    backend.set_block(2, ACTIVE, 1, 1)
    backend.send_delta([2])
    wait_for_seq(page, 1, 108)
    assert counts(page) == {"unknown": 0, "empty": 6, "free": 0, "cached": 1, "active": 1, "shared": 0}
    assert backend.snapshots_served == 2


def test_new_epoch_replaces_the_picture(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(5, ACTIVE, 1, 16)
    mount("block_map")
    backend.begin_epoch()
    backend.set_block(1, ACTIVE, 1, 2)
    backend.send_delta([1])
    wait_for_seq(page, 2, 6)
    assert counts(page)["active"] == 1


def test_new_epoch_of_an_idle_engine_is_seen_in_the_summary(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(5, ACTIVE, 1, 16)
    mount("block_map")
    backend.begin_epoch()
    backend.send_summary()
    wait_for_seq(page, 2, 5)
    assert counts(page)["active"] == 0


@pytest.mark.parametrize("frame", [b"KVXB", b"nonsense" * 20, b"KVXB\x01\x02" + bytes(90)])
def test_frame_that_is_none_is_survived(page: Page, backend: ScriptedBackend, mount: Mount, frame: bytes) -> None:
    mount("block_map")
    page.evaluate("console.warn = () => {}")
    backend.send(frame)
    backend.set_block(6, ACTIVE, 1, 1)
    backend.send_delta([6])
    wait_for_seq(page, 1, 101)
    assert counts(page)["active"] == 1


def test_components_share_one_socket_and_the_last_closes_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    names = ("block_map", "kpi_tiles", "health_line", "requests_table")
    for name in names:
        mount(name)
    assert page.evaluate("__kvxray.sockets()") == backend.num_viewers == 1
    for name in names[:-1]:
        page.evaluate("name => unmount(name)", name)
    assert page.evaluate("__kvxray.sockets()") == 1
    page.evaluate("name => unmount(name)", names[-1])
    page.wait_for_function("__kvxray.sockets() === 0")
    assert page.evaluate("__kvxray.map") is None


def test_late_cleanup_of_an_overtaken_call_ends_nothing(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    mount("block_map")  # Streamlit runs the script again: the same element, a second call
    page.evaluate("cleanUp('block_map', 0)")
    backend.send_delta([1])
    wait_for_seq(page, 1, 101)
    assert page.evaluate("__kvxray.sockets()") == 1
    page.evaluate("cleanUp('block_map', 1)")
    page.wait_for_function("__kvxray.sockets() === 0")


def test_waiting_source_is_no_error_and_its_first_picture_appears(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.joined = False
    mount("block_map", wait=False)
    note = "inside('block_map', '.stage-note').textContent"
    page.wait_for_function(f"{note}.startsWith('Waiting for the engine')")
    assert page.evaluate("__kvxray.counts()") is None
    backend.joined = True
    backend.send_summary()
    page.wait_for_function("__kvxray.counts()?.empty === 8")
    assert page.evaluate("inside('block_map', '.stage-note').hidden")


def test_stale_source_and_lost_backend_are_said_beside_the_title_of_the_last_picture(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("block_map")
    age = "inside('block_map', '.panel-head .old')"
    assert page.evaluate(f"{age}.hidden")
    backend.source_state = "stale"
    backend.send_summary()
    page.wait_for_function("__kvxray.status() === 'stale'")
    page.wait_for_function(f"!{age}.hidden && {age}.dataset.phase === 'stale' && {age}.textContent.startsWith('as of')")

    backend.hang_up()
    page.wait_for_function(f"{age}.dataset.phase === 'lost' && {age}.textContent.startsWith('as of')")
    assert counts(page)["empty"] == 8
    backend.source_state = "connected"
    page.wait_for_function("__kvxray.status() === 'live'")
    page.wait_for_function(f"{age}.hidden")
    assert backend.num_viewers == page.evaluate("__kvxray.sockets()") == 1


def test_engine_without_events_has_no_event_number(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.seq = -1
    mount("block_map")
    mount("health_line")
    page.wait_for_function("inside('block_map', '.readout').textContent.includes('no events yet')")
    page.wait_for_function("inside('health_line', '.pieces').textContent.includes('event none yet')")


def test_event_is_written_alike_in_head_and_foot(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.seq = 5659
    mount("block_map")
    mount("health_line")
    page.wait_for_function("inside('block_map', '.readout').textContent.endsWith('event 1.5659')")
    page.wait_for_function("inside('health_line', '.pieces').textContent.includes('event 1.5659')")


def test_how_long_an_event_takes_to_the_page_is_told_of_events_only(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("block_map")
    readout = "inside('block_map', '.readout').textContent"
    page.wait_for_function(f"{readout}.endsWith('event 1.100')")
    assert "from event to pixel" not in page.evaluate(readout), "a snapshot is no news of its last event"
    backend.set_block(3, ACTIVE, 1, 16)
    backend.seq += 1 / 1024
    backend.send(backend.delta([3], 100, backend.seq))
    page.wait_for_function("__kvxray.counts().active === 1")
    assert "from event to pixel" not in page.evaluate(readout), "no event told this change"
    backend.seq = 100
    backend.set_block(4, ACTIVE, 1, 16)
    backend.send(backend.delta([4], 100, 101))
    page.wait_for_function(f"{readout}.includes('from event to pixel')")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 502, "body": "Bad Gateway"}, "The backend answered 502. Trying again."),
        ({"status": 200, "body": "<html>Sign in</html>"}, "What came is no picture of blocks. Trying again."),
        (None, "The backend does not answer. Trying again."),
    ],
)
def test_a_map_without_blocks_says_why_while_all_else_is_live(
    page: Page, backend: ScriptedBackend, mount: Mount, answer: dict[str, Any] | None, words: str
) -> None:
    page.route("**/api/state/blocks?*", lambda route: route.fulfill(**answer) if answer else route.abort())
    mount("block_map", wait=False)
    note = "inside('block_map', '.stage-note')"
    page.wait_for_function("words => inside('block_map', '.stage-note')?.textContent.endsWith(words)", arg=words)
    page.unroute("**/api/state/blocks?*")
    page.wait_for_function(f"{note}.hidden && __kvxray.counts() !== null")


def test_what_is_not_the_backend_is_told_as_such(page: Page, backend: ScriptedBackend) -> None:
    page.route("**/api/sources", lambda route: route.fulfill(status=200, body="<html>Sign in</html>"))
    told = page.evaluate(
        """import('/assets/kvxray/address.js').then(({getJson}) => getJson('sources'))
        .catch(({message, status}) => [message, status])"""
    )
    assert told == [
        "Something else answers in the backend's place; if a proxy wants you to sign in, load the page again.", 0,
    ]  # fmt: skip
