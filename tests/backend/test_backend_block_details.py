"""Ages and holders of all blocks as the map gets them, against what a story tells."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest
from kvxray_backend import block_details, block_sharers
from kvxray_backend.block_details import (
    AGE_UNKNOWN,
    FLAG_HOLDERS_KNOWN,
    FLAG_TENANTS_TOLD,
    HEADER,
    HOLDER_NOBODY,
    HOLDER_SETS,
    HOLDER_SEVERAL,
    HOLDER_UNKNOWN,
    details_frame,
)
from kvxray_backend.block_sharers import sharers_of_blocks
from kvxray_backend.block_tenants import FIRST, MOST_TENANTS, NOBODY, NOT_TOLD, OTHERS, SEVERAL
from kvxray_backend.live_state import LiveState
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_log import ANONYMOUS

from tests.backend.told import Story


def told(story: Story) -> LiveState:
    live = LiveState("told")
    live.begin(4, BlockMap(story.map.descriptor, source="told", incarnation="life-1"))
    for message in story.messages:
        live.fold(message)
    return live


def read(frame: bytes) -> dict[str, Any]:
    _, _, flags, epoch, count, time_s, length = HEADER.unpack(frame[: HEADER.size])
    columns = np.frombuffer(frame, "<u4", 2 * count, HEADER.size)
    tenants = list(frame[HEADER.size + 8 * count : -length])
    assert len(tenants) == (count if flags & FLAG_TENANTS_TOLD else 0)
    names = json.loads(frame[-length:])
    assert frame[4] == 3
    return {
        "known": bool(flags & FLAG_HOLDERS_KNOWN),
        "epoch": epoch,
        "time_s": time_s,
        "ages": columns[:count].tolist(),
        "holders": columns[count:].tolist(),
        "names": names["holders"],
        "together": names["together"],
        "sharers": names["sharers"],
        "tenants": tenants,
        "tenant_names": names["tenants"],
    }


def details(live: LiveState, *, with_sharers: bool = True) -> dict[str, Any]:
    made = details_frame(live, with_sharers=with_sharers)
    assert made is not None
    return read(made[1])


def test_blocks_have_their_holder_and_their_age() -> None:
    story = Story(num_blocks=6)
    first = story.arrive("agent-1")
    story.allocate("agent-1", 1, 2)
    story.step(seconds=2.5)
    second = story.arrive("agent-2")
    story.allocate("agent-2", 3)
    story.refer("agent-2", 2)
    story.step()
    told_now = details(told(story))
    assert told_now["known"]
    assert told_now["epoch"] == 4
    assert told_now["holders"] == [HOLDER_NOBODY, first, HOLDER_SETS, second, HOLDER_NOBODY, HOLDER_NOBODY]
    assert told_now["together"] == [[first, second]]
    assert told_now["names"] == told_now["sharers"] == {str(first): "agent-1", str(second): "agent-2"}
    assert told_now["ages"] == [AGE_UNKNOWN, 250, 250, 0, AGE_UNKNOWN, AGE_UNKNOWN]


def test_after_a_gap_nobody_is_said_to_hold_a_block() -> None:
    story = Story(num_blocks=4)
    story.arrive("agent-1")
    story.allocate("agent-1", 1)
    story.step()
    live = told(story)
    live.forget()
    told_now = details(live)
    assert not told_now["known"]
    assert told_now["holders"] == [HOLDER_UNKNOWN] * 4
    assert told_now["ages"] == [AGE_UNKNOWN] * 4
    assert told_now["names"] == {}


def test_a_block_held_twice_by_one_is_its_own() -> None:
    story = Story(num_blocks=4)
    only = story.arrive("agent-1")
    story.allocate("agent-1", 1)
    story.refer("agent-1", 1)
    story.step()
    assert details(told(story))["holders"][1] == only


def test_those_who_share_are_told_by_set_the_one_of_most_blocks_first() -> None:
    story = Story(num_blocks=9)
    a, b, c = (story.arrive(name) for name in ("a", "b", "c"))
    story.allocate("a", 1, 2, 3, 4, 5)
    story.refer("b", 1, 2, 3, 4)
    story.refer("c", 1)
    story.refer("b", 2)  # held twice by one, and by no more for it
    story.step()
    told_now = details(told(story))
    assert told_now["together"] == [[a, b], [a, b, c]]
    most, all_three = HOLDER_SETS, HOLDER_SETS + 1
    assert told_now["holders"] == [HOLDER_NOBODY, all_three, most, most, most, a, *[HOLDER_NOBODY] * 3]
    assert list(told_now["sharers"].items()) == [(str(a), "a"), (str(b), "b"), (str(c), "c")]


def test_blocks_shared_by_somebody_without_a_name_are_only_several() -> None:
    found = sharers_of_blocks(np.array([3, 3], np.uint32), np.array([7, ANONYMOUS], np.uint32))
    assert (found.sets, found.blocks.tolist(), found.of_set.tolist()) == ([], [], [])


def test_of_many_sets_those_of_most_blocks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_sharers, "MOST_SETS", 3)
    monkeypatch.setattr(block_sharers, "MOST_MEMBERS", 5)
    members = {1: [5, 6], 2: [1, 2], 3: [1, 2], 4: [1, 2], 5: [7, 8, 9, 10], 6: [7, 8, 9, 10], 7: [5, 6], 8: [3, 4]}
    blocks = np.array([block for block, held_by in members.items() for _ in held_by], np.uint32)
    holders = np.array([holder for held_by in members.values() for holder in held_by], np.uint32)
    found = sharers_of_blocks(blocks, holders)
    assert found.sets == [[1, 2], [5, 6]]  # four more members would be too many, and a fourth set one too many
    assert dict(zip(found.blocks.tolist(), found.of_set.tolist(), strict=True)) == {1: 1, 2: 0, 3: 0, 4: 0, 7: 1}


def test_sets_are_those_of_a_count_block_by_block() -> None:
    rng = np.random.default_rng(5)
    holds = np.unique(rng.integers(0, 40, (3000, 2)), axis=0)
    blocks, holders = (np.repeat(column, 1 + holds[:, 1] % 2).astype(np.uint32) for column in holds.T)
    found = sharers_of_blocks(blocks, holders)
    told_of = {block: found.sets[at] for block, at in zip(found.blocks.tolist(), found.of_set.tolist(), strict=True)}
    expected = {int(block): sorted(set(holders[blocks == block].tolist())) for block in np.unique(blocks)}
    assert told_of == {block: members for block, members in expected.items() if len(members) > 1}


def test_who_does_not_ask_for_sharers_is_told_of_several_and_nothing_is_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(num_blocks=4)
    first = story.arrive("a")
    story.arrive("b")
    story.allocate("a", 1, 2)
    story.refer("b", 2)
    story.step()
    monkeypatch.setattr(block_details, "sharers_of_blocks", None)
    told_now = details(told(story), with_sharers=False)
    assert told_now["holders"] == [HOLDER_NOBODY, first, HOLDER_SEVERAL, HOLDER_NOBODY]
    assert (told_now["together"], told_now["sharers"], told_now["names"]) == ([], {}, {str(first): "a"})


def test_the_fold_goes_on_while_sharers_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(num_blocks=4)
    for name in ("a", "b"):
        story.arrive(name)
    story.allocate("a", 1)
    story.refer("b", 1)
    story.step()
    live = told(story)

    def search(*holds: Any) -> Any:
        fold = threading.Thread(target=live.lock.acquire, daemon=True)
        fold.start()
        fold.join(5)
        assert not fold.is_alive(), "whoever folds waits for the lock"
        return sharers_of_blocks(*holds)

    monkeypatch.setattr(block_details, "sharers_of_blocks", search)
    assert details(live)["together"] == [[0, 1]]


def test_before_the_source_is_joined_there_are_none() -> None:
    assert details_frame(LiveState("told")) is None


def test_blocks_are_held_for_the_tenant_of_their_holders() -> None:
    story = Story(num_blocks=11)
    story.arrive("a-1", tenant="a")
    story.arrive("a-2", tenant="a")
    story.arrive("b-1", tenant="b")
    story.arrive("plain")
    story.allocate("b-1", 1, 2, 3)
    story.allocate("a-1", 4, 5, 6, 9)
    story.allocate("plain", 7)
    story.refer("a-2", 4, 5)  # of one tenant still
    story.refer("a-1", 3)
    story.refer("plain", 6)
    story.step()
    story.free("a-1", 9)
    story.step()
    told_now = details(told(story))
    a, b = (FIRST + told_now["tenant_names"].index(name) for name in "ab")
    assert told_now["tenants"] == [NOBODY, b, b, SEVERAL, a, a, SEVERAL, NOT_TOLD, NOBODY, NOBODY, NOBODY]


def test_a_sequence_is_of_the_tenant_of_its_request() -> None:
    story = Story(num_blocks=3)
    request = story.arrive("a", tenant="t")
    story.arrive("a/1", kind="sequence", parent=request)
    story.allocate("a/1", 1)
    story.step()
    told_now = details(told(story))
    assert (told_now["tenants"], told_now["tenant_names"]) == ([NOBODY, FIRST, NOBODY], ["t"])


def test_more_tenants_than_a_map_can_name_are_others() -> None:
    number = MOST_TENANTS + 2
    story = Story(num_blocks=2 * number + 1)
    for tenant in range(number):  # the later, the more blocks
        story.arrive(f"r{tenant}", tenant=f"t{tenant}")
        story.allocate(f"r{tenant}", 1 + tenant, *([1 + number + tenant] if tenant > 1 else []))
    story.step()
    told_now = details(told(story))
    assert len(told_now["tenant_names"]) == MOST_TENANTS
    assert told_now["tenants"][1:3] == [OTHERS, OTHERS]
    assert OTHERS not in told_now["tenants"][3:]


def test_where_no_request_names_a_tenant_or_holders_are_unknown_there_is_no_column() -> None:
    story = Story(num_blocks=4)
    story.arrive("plain")
    story.allocate("plain", 1)
    story.step()
    assert details(told(story))["tenants"] == []
    story = Story(num_blocks=4)
    story.arrive("a", tenant="t")
    story.allocate("a", 1)
    story.step()
    live = told(story)
    live.forget()
    assert details(live)["tenants"] == []
