"""The live state as viewers see it: frames that lead from any snapshot to the fold, marks, and a bounded tail."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.frames import (
    FLAG_HASHED,
    FLAG_LEAKED,
    FLAG_LEAKED_ONLY,
    FLAG_NULL_BLOCK,
    FrameHeader,
    Picture,
    encode_snapshot,
    fill_bytes,
    ref_bytes,
)
from kvxray_backend.live_picture import MAX_DELTA_BLOCKS
from kvxray_backend.live_state import LiveState
from kvxray_backend.live_tail import MAX_EVENTS, MAX_MESSAGES, OTHER_KINDS, LiveTail
from kvxray_backend.views import block_view, source_view, state_view
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import UNKNOWN_U4, BlockState, Kind

from tests.backend.told import Story, bare_message, descriptor
from tests.backend.viewer import MustFetch, Viewer, read_frame


def joined(story: Story, epoch: int = 1) -> LiveState:
    live = LiveState("told")
    live.begin(epoch, BlockMap(story.map.descriptor, source="told", incarnation="life-1"))
    return live


def leak_of(blocks: list[int], only: list[int]) -> Leak:
    return Leak(0, "a", "aborted", 0, np.array(blocks, np.uint32), np.array(only, np.uint32))


def test_the_header_is_laid_out_as_the_contract_says() -> None:
    header = FrameHeader(3, 4, 1.5, 2.5, 1800.25, 0, 16, 3)
    zero = np.zeros(4, np.uint8)
    frame = encode_snapshot(header, Picture(zero, zero + 1, zero + 2, zero + 3))
    assert struct.unpack("<4sBBHIIdddIiIIQ", frame[:64]) == (b"KVXB", 1, 1, 0, 3, 4, 1.5, 2.5, 1800.25, 4, 0, 16, 3, 0)
    assert frame[64:] == b"\0\0\0\0\1\1\1\1\2\2\2\2\3\3\3\3"


def test_before_the_first_event_the_state_is_of_when_the_engine_was_heard() -> None:
    live = LiveState("told")
    live.begin(1, BlockMap(descriptor(), source="told", incarnation="life-1"), heard_ns=1_800_000_000_250_000_000)
    live.check_integrity()
    assert live.seq is None
    made, state = live.snapshot_frame(), state_view(live)
    assert made is not None
    assert state is not None
    assert struct.unpack_from("<d", made[1], 32) == (pytest.approx(1_800_000_000.25, abs=1e-3),)
    assert (state.time, state.seq) == ("2027-01-15T08:00:00.250Z", None)


def test_one_byte_says_how_often_and_how_full() -> None:
    assert ref_bytes(np.array([0, 1, 254, 300, UNKNOWN_U4], np.uint32)).tolist() == [0, 1, 254, 254, 255]
    slots, unknown = np.array([0, 1, 8, 16, 16], np.uint16), np.array([0, 0, 0, 0, 1], bool)
    assert fill_bytes(slots, unknown, 16).tolist() == [0, 16, 127, 254, 255]


def test_a_snapshot_and_the_deltas_after_it_show_the_fold() -> None:
    story = Story()
    live = joined(story)
    viewer = Viewer(live)
    story.arrive("a")
    for block in range(1, 8):
        story.allocate("a", block)
        story.fill({block: block})
        live.fold(story.step())
        viewer.update()
        viewer.assert_shows(live)
    story.cache("a", 1, 2)
    story.free("a", 1, 2)
    live.fold(story.step())
    viewer.update()
    viewer.assert_shows(live)
    live.check_integrity()


def test_flags_tell_hashed_leaked_and_the_null_block() -> None:
    story = Story()
    live = joined(story)
    story.arrive("a")
    story.allocate("a", 1, 2)
    story.cache("a", 1)
    live.fold(story.step())
    live.mark_leaks([leak_of([2, 3], only=[3])])
    viewer = Viewer(live)
    assert viewer.flags[:5].tolist() == [FLAG_NULL_BLOCK, FLAG_HASHED, FLAG_LEAKED, FLAG_LEAKED | FLAG_LEAKED_ONLY, 0]
    assert (FLAG_LEAKED, FLAG_NULL_BLOCK, FLAG_HASHED, FLAG_LEAKED_ONLY) == (1, 2, 4, 8)
    live.check_integrity()


def test_a_leaked_block_that_its_last_living_holder_leaves_changes_its_flags() -> None:
    story = Story()
    live = joined(story)
    story.arrive("a")
    story.allocate("a", 1, 2)
    live.fold(story.step())
    live.mark_leaks([leak_of([1, 2], only=[2])])
    viewer = Viewer(live)
    live.mark_leaks([leak_of([1, 2], only=[1, 2])])
    viewer.update()
    assert viewer.flags[1:3].tolist() == [FLAG_LEAKED | FLAG_LEAKED_ONLY] * 2


def test_a_change_that_no_event_told_reaches_viewers_too() -> None:
    story = Story()
    live = joined(story)
    viewer = Viewer(live)
    story.arrive("a")
    story.allocate("a", 1)
    live.fold(story.step())
    viewer.update()
    before = live.seq
    live.mark_leaks([leak_of([1], only=[])])
    viewer.update()
    assert live.seq == before
    assert viewer.flags[1] == FLAG_LEAKED
    live.mark_leaks([])
    viewer.update()
    assert viewer.flags[1] == 0
    live.forget()
    viewer.update()
    assert set(viewer.state[1:].tolist()) == {BlockState.unknown}
    viewer.assert_shows(live)


def test_a_snapshot_in_place_of_the_unknown_shows_although_no_event_came() -> None:
    story = Story()
    live = joined(story)
    viewer = Viewer(live)
    story.arrive("a")
    story.allocate("a", 1)
    live.fold(story.step())
    live.forget()
    viewer.update()
    live.replace(story.map)
    viewer.update()
    viewer.assert_shows(live)
    assert viewer.state[1] == BlockState.active


def test_a_block_is_tainted_by_what_spoils_it_and_by_nothing_else() -> None:
    story = Story()
    live = joined(story)
    story.arrive("a")
    story.allocate("a", 1, 2)
    live.fold(story.step())
    leak = leak_of([1], only=[1]).finding("told", 1, 0, story.clock.now)
    kinds = {kind: leak.model_copy(update={"id": kind, "kind": kind}) for kind in ("leak", "gap", "audit", "stale")}

    def taints(*found: str, block: int = 1) -> tuple[tuple[str, ...], tuple[str, ...], str]:
        live.findings = tuple(kinds[kind] for kind in found)
        view = block_view(live, block, [])
        assert view is not None
        assert {view.ref_cnt.taints, view.slots.taints, view.age_s.taints} == {view.idle_s.taints}
        return view.taints, view.ref_cnt.taints, view.ref_cnt.certainty

    assert taints("leak", "gap") == ((), (), "exact")
    assert taints("audit", "stale") == (("audit", "stale"), ("audit", "stale"), "derived")
    live.forget()
    assert taints("gap") == (("gap",), ("gap",), "derived")
    story.allocate("a", 3)
    live.fold(story.step())
    # Known again, but not who else may hold it.
    assert taints("gap", block=3) == (("gap",), (), "exact")


def test_how_late_a_silent_engine_was_is_not_how_late_it_is() -> None:
    live = joined(Story())
    live.lag_s = 0.25
    assert source_view(live).lag_s.taints == ()
    live.findings = (leak_of([1], only=[]).finding("told", 1, 0, 1).model_copy(update={"id": "s", "kind": "stale"}),)
    assert source_view(live).lag_s.taints == ("s",)


def test_nothing_new_is_no_frame() -> None:
    live = joined(Story())
    seq = live.start_watching()
    assert live.delta_frame(1, seq) is None


def test_another_epoch_sends_viewers_for_a_snapshot() -> None:
    story = Story()
    live = joined(story)
    viewer = Viewer(live)
    live.begin(2, BlockMap(descriptor(33), source="told", incarnation="life-2"))
    with pytest.raises(MustFetch):
        viewer.update()
    viewer.fetch()
    assert viewer.epoch == 2
    viewer.assert_shows(live)


def test_a_moment_with_another_number_of_blocks_sends_viewers_for_a_snapshot() -> None:
    then, now = LiveState("told"), LiveState("told")
    then.begin(1, BlockMap(descriptor(), source="told", incarnation="life-1"))
    now.begin(1, BlockMap(descriptor(33), source="told", incarnation="life-1"))
    now.picture.seq = 7.0
    frame = read_frame(now.delta_from(then))
    assert len(frame.ids) == 0
    assert frame.seq_from != then.picture.seq


def test_where_most_has_changed_a_snapshot_is_cheaper_than_a_delta() -> None:
    story = Story(MAX_DELTA_BLOCKS + 2)
    live = joined(story)
    viewer = Viewer(live)
    story.arrive("a")
    story.allocate("a", 1)
    live.fold(story.step())
    viewer.update()
    live.forget()
    made = live.delta_frame(viewer.epoch, viewer.last_seq)
    assert made is not None
    assert len(made[1]) == 64
    assert read_frame(made[1]).seq_from > viewer.seq


def test_the_tail_gives_the_newest_first_and_leaves_the_routine_out() -> None:
    story = Story()
    tail = LiveTail()
    story.arrive("a")
    story.allocate("a", 1, 2)
    story.fill({1: 3})
    story.tokens("a", 1)
    tail.add(story.step())
    story.cache("a", 1)
    tail.add(story.step())
    names = {0: "a"}
    newest = tail.newest(3, names, OTHER_KINDS - {Kind.RequestArrived})
    assert [(row.kind, row.block_id) for row in newest] == [
        (Kind.BlockCached, 1), (Kind.BlockAllocated, 2), (Kind.BlockAllocated, 1)
    ]  # fmt: skip
    assert newest[0].request_id == "a"
    everything = tail.newest(100, names)
    assert [row.seq for row in everything] == list(range(story.recorder.next_seq - 1, -1, -1))
    assert [row.seq for row in tail.since(4, 3, names)] == [4, 5, 6]
    assert [row.kind for row in tail.of_block(1, 0, 10, names)] == [
        Kind.BlockCached, Kind.BlockFilled, Kind.BlockAllocated
    ]  # fmt: skip


def test_the_tail_is_bounded_in_messages_and_events() -> None:
    tail = LiveTail()
    for wire_seq in range(MAX_MESSAGES + 50):
        tail.add(bare_message(wire_seq, wire_seq))
        tail.check_integrity()
    assert len(tail.since(0, 10**6, {})) == MAX_MESSAGES
    tail.add(bare_message(9999, 9999, MAX_EVENTS))
    tail.check_integrity()
    assert len(tail.since(0, 10**6, {})) == MAX_EVENTS
