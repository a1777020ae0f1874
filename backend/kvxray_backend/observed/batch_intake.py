"""Batches that no socket of ours hears, put in order: of each publisher, and of each rank that it tells of."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import AskReplay, Step
from kvxray_backend.sources.foreign.caps import MAX_SEQ
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher
from kvxray_backend.sources.foreign.ordered_stream import MAX_ORIGINS, Delivery, Origin, rank_of
from kvxray_backend.sources.foreign.rank_lanes import Rank, RankLanes
from kvxray_backend.sources.foreign.told import Batch

Steps = list[tuple[Origin, Step[Delivery]]]


class BatchIntake:
    """Nothing is asked for again, so nothing waits for what is missing. `num_unplaced`: batches without a number of
    their own, or of more ranks than are told apart.
    """

    def __init__(self) -> None:
        self.num_unplaced = 0
        self._lanes: dict[Publisher, RankLanes[Delivery]] = {}

    def offer(self, publisher: Publisher, batch: Batch, num_bytes: int) -> Steps:
        """The next batch that came."""
        seq = batch.event_id
        if seq is None or not 0 <= seq < MAX_SEQ or not self._has_room(publisher, batch.rank):
            self.num_unplaced += 1
            return []
        lanes = self._lanes.setdefault(publisher, RankLanes(_new_sequencer, rank_of))
        delivery = Delivery(batch, Heard(publisher, seq, b"", time.time_ns()))
        return list(_of(publisher, lanes.offer(seq, delivery, num_bytes, time.monotonic_ns())))

    def finish(self) -> Steps:
        """Nothing more will come."""
        now_ns = time.monotonic_ns()
        return [told for publisher, lanes in self._lanes.items() for told in _of(publisher, lanes.finish(now_ns))]

    def _has_room(self, publisher: Publisher, rank: Rank) -> bool:
        if publisher in self._lanes and rank in self._lanes[publisher]:
            return True
        return sum(map(len, self._lanes.values())) < MAX_ORIGINS


def _new_sequencer() -> BatchSequencer[Delivery]:
    return BatchSequencer(None, hold_for_replay=False)


def _of(publisher: Publisher, steps: Iterable[tuple[Rank, Step[Delivery]]]) -> Iterator[tuple[Origin, Step[Delivery]]]:
    for rank, step in steps:
        assert not isinstance(step, AskReplay), "there is nobody to ask"
        yield Origin(publisher, rank), step
