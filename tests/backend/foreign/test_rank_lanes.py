"""Ranks of one publisher: those that number their batches together, and those that only seem to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import Apply, GapOpened, JoinedMidstream, Restarted
from kvxray_backend.sources.foreign.rank_lanes import RankLanes


@dataclass(frozen=True)
class OfRank:
    rank: int
    ts: float
    digest: bytes


class World:
    def __init__(self) -> None:
        self.lanes: RankLanes[OfRank] = RankLanes(
            lambda: BatchSequencer(None, hold_for_replay=False), lambda batch: batch.rank
        )
        self.told: list[tuple[int | None, object]] = []
        self._ts = 0.0

    def offer(self, rank: int, seq: int) -> None:
        self._ts += 1.0
        batch = OfRank(rank, self._ts, f"{rank} {seq} {self._ts}".encode())
        self.told += self.lanes.offer(seq, batch, 10, int(self._ts * 1e9))
        self.lanes.check_integrity()

    def applied(self, rank: int) -> list[int]:
        return [step.seq for told, step in self.told if told == rank and isinstance(step, Apply)]

    def of(self, kind: type) -> list[tuple[int | None, object]]:
        return [(rank, step) for rank, step in self.told if isinstance(step, kind)]


def test_a_rank_that_goes_on_with_anothers_numbers_shares_them() -> None:
    world = World()
    for seq in range(6):
        world.offer(seq % 2, seq)
    assert (world.applied(0), world.applied(1)) == ([0, 2, 4], [1, 3, 5])
    assert (len(world.lanes), world.lanes.num_counts) == (2, 1)
    world.offer(0, 9)
    assert world.of(GapOpened) == [(0, GapOpened(6, 8)), (1, GapOpened(6, 8))]


def test_ranks_that_seemed_to_share_part_when_both_tell_one_number() -> None:
    world = World()
    world.offer(0, 500)
    for seq in range(501, 510):
        world.offer(1, seq)
        world.offer(0, seq)
    assert world.applied(0) == list(range(500, 510))
    assert world.applied(1) == list(range(501, 510))
    assert world.lanes.num_counts == 2
    assert world.of(GapOpened) == world.of(Restarted) == []
    assert [rank for rank, _ in world.of(JoinedMidstream)] == [0, 1]


def test_a_restart_of_ranks_that_share_a_count_is_one_of_both() -> None:
    world = World()
    for seq in range(4):
        world.offer(seq % 2, seq)
    for seq in range(4):
        world.offer((seq + 1) % 2, seq)
    assert world.lanes.num_counts == 1
    assert [rank for rank, _ in world.of(Restarted)] == [0, 1]
    assert (world.applied(0), world.applied(1)) == ([0, 2, 1, 3], [1, 3, 0, 2])


@pytest.mark.parametrize("num_counts", [1, 2])
def test_what_was_dropped_is_missing_where_a_number_says_whose_it_is(num_counts: int) -> None:
    world = World()
    world.offer(0, 0)
    world.offer(1, 1 if num_counts == 1 else 0)
    told = world.lanes.hear(5, 10**12)
    assert [rank for rank, _ in told] == ([0, 1] if num_counts == 1 else [])
