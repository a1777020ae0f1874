"""The ranks that one publisher's batches tell of, each in its order: some number theirs together, some alone.

Pure. A rank whose first number is the next one of another rank shares its count: an engine that publishes for all its
data-parallel ranks over one socket numbers them so. Where that was a coincidence, the other rank soon tells the same
number, and each has a count of its own from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic

from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import Apply, AskReplay, GapOpened, JoinedMidstream, Restarted, Step, T

MAX_DOUBTED: Final = 64
"""Batches after the last rank joined a count, while the same number told twice shows that there are two counts."""

Rank = int | None


@dataclass(slots=True)
class _Lane(Generic[T]):
    """Batches that are numbered together. `told_by`: whose each number is, while it is in doubt (for `num_doubted` more
    batches) whether they are. `is_partial`: something that was told in this life is missing.
    """

    sequencer: BatchSequencer[T]
    ranks: list[Rank] = field(default_factory=list)
    told_by: dict[int, Rank] = field(default_factory=dict)
    num_doubted: int = 0
    is_partial: bool = False

    def join(self, rank: Rank) -> None:
        self.ranks.append(rank)
        self.told_by.clear()
        self.num_doubted = MAX_DOUBTED if len(self.ranks) > 1 else 0

    def note(self, seq: int, rank: Rank) -> None:
        if self.num_doubted:
            self.num_doubted -= 1
            self.told_by[seq] = rank
        else:
            self.told_by.clear()

    def is_anothers(self, seq: int, rank: Rank) -> bool:
        """Whether another rank has told that number in this life already."""
        next_seq = self.sequencer.next_seq
        return next_seq is not None and seq < next_seq and self.told_by.get(seq, rank) != rank


class RankLanes(Generic[T]):
    """Of one publisher. Steps come out with the rank that they are about; what concerns a whole count comes once for
    each rank that shares it.
    """

    def __init__(self, make_sequencer: Callable[[], BatchSequencer[T]], rank_of: Callable[[T], Rank]) -> None:
        self._make_sequencer = make_sequencer
        self._rank_of = rank_of
        self._lanes: dict[Rank, _Lane[T]] = {}

    def __len__(self) -> int:
        """How many ranks there are."""
        return len(self._lanes)

    def __contains__(self, rank: Rank) -> bool:
        return rank in self._lanes

    @property
    def ranks(self) -> list[Rank]:
        """In the order in which they were first heard."""
        return list(self._lanes)

    @property
    def holds_any(self) -> bool:
        """Whether batches wait for others before them."""
        return any(lane.sequencer.num_held for lane in self._lanes.values())

    @property
    def num_counts(self) -> int:
        """How many of them number their batches by themselves."""
        return len(self._each())

    def offer(
        self, seq: int, batch: T, num_bytes: int, now_ns: int, *, replay_start: int | None = None
    ) -> list[tuple[Rank, Step[T]]]:
        """One batch, in any order; see `BatchSequencer.offer`."""
        rank = self._rank_of(batch)
        is_new = rank not in self
        lane = self._lane(rank, seq)
        lane.note(seq, rank)
        # What is missing may have been of this rank too.
        before: list[tuple[Rank, Step[T]]] = [(rank, JoinedMidstream(seq))] if is_new and lane.is_partial else []
        return before + self._placed(
            lane, lane.sequencer.offer(seq, batch, num_bytes, now_ns, replay_start=replay_start)
        )

    def hear(self, last_seq: int, now_ns: int) -> list[tuple[Rank, Step[T]]]:
        """Batches up to `last_seq` exist, though they did not come; nothing is known of whose they are where there are
        several counts.
        """
        return self._of_each(lambda sequencer: sequencer.hear(last_seq, now_ns)) if self.num_counts == 1 else []

    def replay_ended(self, start: int, num_dropped: int, now_ns: int) -> list[tuple[Rank, Step[T]]]:
        return self._of_each(lambda sequencer: sequencer.replay_ended(start, num_dropped, now_ns))

    def advance(self, now_ns: int) -> list[tuple[Rank, Step[T]]]:
        return self._of_each(lambda sequencer: sequencer.advance(now_ns))

    def finish(self, now_ns: int) -> list[tuple[Rank, Step[T]]]:
        return self._of_each(lambda sequencer: sequencer.finish(now_ns))

    def check_integrity(self) -> None:
        """Asserts the invariants of every part."""
        for lane in self._each():
            lane.sequencer.check_integrity()
            assert all(self._lanes[rank] is lane for rank in lane.ranks), "a rank stands in two lanes"

    def _each(self) -> list[_Lane[T]]:
        return list({id(lane): lane for lane in self._lanes.values()}.values())

    def _of_each(self, told: Callable[[BatchSequencer[T]], list[Step[T]]]) -> list[tuple[Rank, Step[T]]]:
        return [placed for lane in self._each() for placed in self._placed(lane, told(lane.sequencer))]

    def _placed(self, lane: _Lane[T], steps: Iterable[Step[T]]) -> list[tuple[Rank, Step[T]]]:
        placed: list[tuple[Rank, Step[T]]] = []
        for step in steps:
            lane.is_partial = not isinstance(step, Restarted) and (
                lane.is_partial or isinstance(step, JoinedMidstream | GapOpened)
            )
            if isinstance(step, Apply):
                placed.append((self._rank_of(step.batch), step))
            elif isinstance(step, AskReplay):
                placed.append((lane.ranks[0], step))
            else:
                placed += [(rank, step) for rank in lane.ranks]
        return placed

    def _lane(self, rank: Rank, seq: int) -> _Lane[T]:
        lane = self._lanes.get(rank)
        if lane is None:
            shared = [one for one in self._each() if seq > 0 and one.sequencer.next_seq == seq]
            lane = self._lanes[rank] = shared[0] if shared else _Lane(self._make_sequencer())
            lane.join(rank)
        elif lane.is_anothers(seq, rank):
            lane.ranks.remove(rank)
            lane = self._lanes[rank] = _Lane(self._make_sequencer(), [rank])
            lane.sequencer.next_seq = seq  # nothing is missing: it goes on where its own count stands
        return lane
