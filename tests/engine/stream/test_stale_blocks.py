"""A hit of a block that was given out while it was cached: told from the hit of what came to lie in it since."""

from __future__ import annotations

import pytest
from kvxray_engine.clock import VirtualClock
from kvxray_engine.stream import stale_blocks
from kvxray_engine.stream.block_map import BlockMap, Fault
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, Name
from kvxray_engine.stream.undo import Undo

from tests.engine.stream.scripted_pool import descriptor

ALICE, BOB, CAROL = range(3)
BEGINNING, OLD, NEW, OTHER = (bytes([letter]) * 32 for letter in b"bono")


class World:
    """Block 1 holds a shared beginning and block 2 what followed it once; then 2 is given to Bob and nobody says that
    its hash is gone.
    """

    def __init__(self) -> None:
        self.recorder = Recorder(VirtualClock())
        self.fold = BlockMap(descriptor(8))
        for name in ("alice", "bob", "carol"):
            self.recorder.new_holder(Name(name))
        self.rows(Kind.BlockAllocated, ALICE, [1, 2])
        self.beginning = self.cached(ALICE, [1], [BEGINNING])
        self.cached(ALICE, [2], [OLD], self.beginning)
        self.rows(Kind.BlockFreed, ALICE, [2, 1], Cause.finish)
        self.rows(Kind.BlockAllocated, BOB, [2])

    def rows(self, kind: Kind, req: int, blocks: list[int], cause: Cause = Cause.none) -> None:
        self.recorder.rows(kind, cause, req, blocks)

    def cached(self, req: int, blocks: list[int], hashes: list[bytes], parent: int = -1) -> int:
        return self.recorder.cached(req, blocks, hashes, parent)

    def refer(self, req: int, blocks: list[int], cause: Cause = Cause.hit) -> None:
        self.recorder.values(Kind.BlockReferenced, cause, req, blocks, [2] * len(blocks))

    def hits(self) -> list[Fault]:
        """What the fold finds in all that was told since the last look, message by message."""
        self.recorder.flush()
        recorded, _ = self.recorder.handover.take()
        self.messages = [to_message(one, "test", "life-1", 32) for one in recorded]
        for one in self.messages:
            self.fold.apply(decode(encode(one.header, one.columns)))
        self.fold.stale.check_integrity()
        return [fault for fault in self.fold.take_faults() if fault.kind == "stale_hit"]


def who(hits: list[Fault]) -> list[tuple[int, int, bytes | None, int, bool]]:
    return [
        (one.holder, one.block, one.block_hash, one.given.holder if one.given else -1, one.is_certain) for one in hits
    ]


def test_a_hit_before_anything_else_is_cached_there_is_certain():
    world = World()
    world.refer(CAROL, [1, 2])
    (hit,) = world.hits()
    assert who([hit]) == [(CAROL, 2, OLD, BOB, True)]
    assert hit.given is not None
    assert hit.seq - hit.given.seq == 2, "it was given out by the event before those of the two hits"


@pytest.mark.parametrize("is_told_at_once", [True, False])
def test_a_hit_of_what_came_to_lie_there_is_right_and_one_of_what_lay_there_is_not(is_told_at_once):
    world = World()
    if not is_told_at_once:
        assert world.hits() == []
    world.cached(BOB, [2], [NEW])
    world.refer(CAROL, [2])
    world.refer(ALICE, [1, 2])
    assert who(world.hits()) == [(ALICE, 2, OLD, BOB, False)]


def test_what_follows_tells_it_too():
    """Block 2 carries another hash of the same beginning now; the block after it does not go on from that."""
    world = World()
    new = world.cached(BOB, [2], [NEW], world.beginning)
    world.rows(Kind.BlockAllocated, ALICE, [3, 4])
    world.cached(ALICE, [3], [OTHER], new)
    world.cached(ALICE, [4], [b"z" * 32], world.beginning + 1)
    world.refer(CAROL, [1, 2, 3])
    assert world.hits() == []
    world.refer(CAROL, [1, 2, 4])
    assert who(world.hits()) == [(CAROL, 2, OLD, BOB, False)]


@pytest.mark.parametrize("cause", [Cause.pin, Cause.lease, Cause.fork])
def test_who_keeps_a_block_or_copies_a_sequence_hits_nothing(cause):
    world = World()
    world.refer(CAROL, [2], cause)
    assert world.hits() == []


def test_with_its_eviction_told_a_block_is_stale_no_more():
    world = World()
    world.rows(Kind.BlockEvicted, NO_ORDINAL, [2], Cause.explicit)
    world.refer(CAROL, [2])
    assert world.hits() == []


def test_a_cleared_cache_leads_nowhere():
    world = World()
    world.recorder.op(Kind.CacheCleared, Cause.explicit, NO_ORDINAL, 255)
    world.refer(CAROL, [2])
    assert world.hits() == []


def test_given_to_the_next_it_stays_stale_and_is_theirs():
    world = World()
    world.rows(Kind.BlockFreed, BOB, [2], Cause.finish)
    world.rows(Kind.BlockAllocated, CAROL, [2])
    world.refer(ALICE, [1, 2])
    assert who(world.hits()) == [(ALICE, 2, OLD, CAROL, True)]


def test_after_a_gap_nobody_is_accused():
    world = World()
    assert world.hits() == []
    world.fold.forget()
    world.refer(CAROL, [1, 2])
    assert world.hits() == []


def test_a_copy_goes_its_own_way_and_a_step_back_forgets_nothing():
    world = World()
    assert world.hits() == []
    copied = world.fold.copy()
    world.rows(Kind.BlockEvicted, NO_ORDINAL, [2], Cause.explicit)
    world.recorder.flush()
    recorded, _ = world.recorder.handover.take()
    message = join([to_message(one, "test", "life-1", 32) for one in recorded])
    undo = Undo(world.fold, message)
    world.fold.apply(message)
    assert (len(world.fold.stale), len(copied.stale)) == (0, 1)
    assert len(undo.take_back(world.fold).stale) == 1


def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(stale_blocks, "MAX_STALE", 1)
    world = World()
    world.rows(Kind.BlockAllocated, CAROL, [1])
    assert world.hits() == []
    assert len(world.fold.stale) == 1
    world.refer(ALICE, [1, 2])
    assert who(world.hits()) == [(ALICE, 1, BEGINNING, CAROL, True)]
