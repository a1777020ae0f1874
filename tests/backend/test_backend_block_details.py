"""Ages and holders of all blocks as the map gets them, against what a story tells."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from kvxray_backend.block_details import (
    AGE_UNKNOWN,
    FLAG_HOLDERS_KNOWN,
    FLAG_TENANTS_TOLD,
    HEADER,
    HOLDER_NOBODY,
    HOLDER_SEVERAL,
    HOLDER_UNKNOWN,
    details_frame,
)
from kvxray_backend.block_tenants import FIRST, MOST_TENANTS, NOBODY, NOT_TOLD, OTHERS, SEVERAL
from kvxray_backend.live_state import LiveState
from kvxray_engine.stream.block_map import BlockMap

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
    return {
        "known": bool(flags & FLAG_HOLDERS_KNOWN),
        "epoch": epoch,
        "time_s": time_s,
        "ages": columns[:count].tolist(),
        "holders": columns[count:].tolist(),
        "names": names["holders"],
        "tenants": tenants,
        "tenant_names": names["tenants"],
    }


def details(live: LiveState) -> dict[str, Any]:
    made = details_frame(live)
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
    assert told_now["holders"] == [HOLDER_NOBODY, first, HOLDER_SEVERAL, second, HOLDER_NOBODY, HOLDER_NOBODY]
    assert told_now["names"] == {str(first): "agent-1", str(second): "agent-2"}
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
