"""Follows everything that one recording tells, offline: each stream by itself, put in order, folded and judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.inspection.inspection_report import StreamReport
from kvxray_backend.inspection.recorded_batches import Recorded
from kvxray_backend.inspection.recorded_formats import Format
from kvxray_backend.inspection.recorded_stream import RecordedStream
from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import Apply, Step
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher
from kvxray_backend.sources.foreign.ordered_stream import Delivery

MAX_STREAMS: Final = 1_024

_Key = tuple[int, str]
"""Line of the case, and stream."""


@dataclass(slots=True)
class _Lane:
    """Batches that are numbered together: of one rank, or of several that share one count. `now_ns`: the latest time
    that was told.
    """

    sequencer: BatchSequencer[Delivery]
    streams: dict[int | None, RecordedStream] = field(default_factory=dict)
    now_ns: int = 0

    def take(self, recorded: Recorded, rank: int | None) -> None:
        self.now_ns = max(self.now_ns, _time_ns(recorded) or self.now_ns)
        self.streams[rank].tally.encodings |= recorded.encodings
        self._follow(self.sequencer.advance(self.now_ns))
        heard = Heard(Publisher(0, b""), recorded.seq, b"", self.now_ns)
        delivery = Delivery(recorded.batch, heard)
        self._follow(self.sequencer.offer(recorded.seq, delivery, recorded.num_bytes, self.now_ns))

    def finish(self) -> None:
        self._follow(self.sequencer.finish(self.now_ns))

    def _follow(self, steps: list[Step[Delivery]]) -> None:
        for step in steps:
            told = [self.streams[_rank(step, self.streams)]] if isinstance(step, Apply) else self.streams.values()
            for stream in told:
                stream.take(step)


class RecordingInspector:
    """`num_refused`: batches of more streams than are told apart; `num_beyond`: batches after the one to stop at."""

    def __init__(self, at: int | None = None, store_semantics: StoreSemantics = "unknown") -> None:
        """at: number of the last batch that is applied; None: all. store_semantics: where nobody tells it."""
        self.num_refused = 0
        self.num_beyond = 0
        self._at = at
        self._semantics = store_semantics
        self._lanes: dict[_Key, dict[int | None, _Lane]] = {}
        self._num_streams = 0

    def take(self, recorded: Recorded) -> None:
        """The next batch of the recording."""
        if self._at is not None and recorded.seq > self._at:
            self.num_beyond += 1
            return
        lanes = self._lanes.setdefault((recorded.case_line, recorded.stream), {})
        rank = recorded.batch.rank
        if rank is None and recorded.batch.oddities.bad_events and len(lanes) == 1:
            rank = next(iter(lanes))  # a payload that is no batch tells none
        if rank not in lanes:
            if self._num_streams >= MAX_STREAMS:
                self.num_refused += 1
                return
            self._open(lanes, recorded, rank)
        lanes[rank].take(recorded, rank)

    def finish(self) -> None:
        """Nothing more will come: what is held is applied, what is missing is told."""
        for lanes in self._lanes.values():
            for lane in {id(lane): lane for lane in lanes.values()}.values():
                lane.finish()

    def streams(self) -> Iterator[RecordedStream]:
        """In the order in which they were first heard."""
        for lanes in self._lanes.values():
            for rank, lane in lanes.items():
                yield lane.streams[rank]

    def reports(self, format: Format) -> tuple[StreamReport, ...]:
        return tuple(stream.report(format) for stream in self.streams())

    def _open(self, lanes: dict[int | None, _Lane], recorded: Recorded, rank: int | None) -> None:
        """A rank whose first number is the next of another rank shares its count."""
        shared = [lane for lane in lanes.values() if recorded.seq > 0 and lane.sequencer.next_seq == recorded.seq]
        lane = shared[0] if shared else _Lane(BatchSequencer(None, hold_for_replay=recorded.holds_for_replay))
        lanes[rank] = lane
        name = f"case {recorded.case}, {recorded.stream}" if recorded.case else recorded.stream
        lane.streams[rank] = RecordedStream(name, rank, recorded.store_semantics or self._semantics)
        self._num_streams += 1


def _rank(step: Apply[Delivery], streams: dict[int | None, RecordedStream]) -> int | None:
    rank = step.batch.batch.rank
    return rank if rank in streams else next(iter(streams))


def _time_ns(recorded: Recorded) -> int | None:
    """When it was received, or made: engines' clocks and ours are not mixed, since a recording tells one or the other
    of all its batches.
    """
    if recorded.received_ns is not None:
        return recorded.received_ns
    batch = recorded.batch
    time_s = batch.elapsed_s if batch.ts is None else batch.ts
    return round(time_s * 1e9) if time_s is not None and 0 <= time_s < float(1 << 33) else None
