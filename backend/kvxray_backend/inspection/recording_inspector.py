"""Follows everything that one recording tells, offline: each stream by itself, put in order, folded and judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.stream.residency_state import StoreSemantics
from msgspec import structs

from kvxray_backend.inspection.inspection_report import StreamReport
from kvxray_backend.inspection.recorded_batches import Recorded
from kvxray_backend.inspection.recorded_formats import Format
from kvxray_backend.inspection.recorded_stream import RecordedStream
from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher
from kvxray_backend.sources.foreign.ordered_stream import Delivery, rank_of
from kvxray_backend.sources.foreign.rank_lanes import Rank, RankLanes
from kvxray_backend.sources.foreign.told import Batch

MAX_STREAMS: Final = 1_024

_Key = tuple[int, str]
"""Line of the case, and stream."""


@dataclass(slots=True)
class _Publisher:
    """`now_ns`: the latest time that was told."""

    lanes: RankLanes[Delivery]
    streams: dict[Rank, RecordedStream] = field(default_factory=dict)
    now_ns: int = 0

    def take(self, recorded: Recorded, batch: Batch) -> None:
        self.now_ns = max(self.now_ns, _time_ns(recorded) or self.now_ns)
        self.streams[batch.rank].tally.encodings |= recorded.encodings
        self.follow(self.lanes.advance(self.now_ns))
        heard = Heard(Publisher(0, b""), recorded.seq, b"", self.now_ns)
        self.follow(self.lanes.offer(recorded.seq, Delivery(batch, heard), recorded.num_bytes, self.now_ns))

    def follow(self, steps: list[tuple[Rank, Step[Delivery]]]) -> None:
        for rank, step in steps:
            self.streams[rank].take(step)


class RecordingInspector:
    """`num_refused`: batches of more streams than are told apart; `num_beyond`: batches after the one to stop at."""

    def __init__(self, at: int | None = None, store_semantics: StoreSemantics = "unknown") -> None:
        """at: number of the last batch that is applied; None: all. store_semantics: where nobody tells it."""
        self.num_refused = 0
        self.num_beyond = 0
        self._at = at
        self._semantics = store_semantics
        self._publishers: dict[_Key, _Publisher] = {}
        self._num_streams = 0

    def take(self, recorded: Recorded) -> None:
        """The next batch of the recording."""
        if self._at is not None and recorded.seq > self._at:
            self.num_beyond += 1
            return
        publisher = self._publisher(recorded)
        batch = recorded.batch
        if batch.rank is None and batch.oddities.bad_events and len(publisher.streams) == 1:
            # A payload that is no batch tells none.
            batch = structs.replace(batch, rank=next(iter(publisher.streams)))
        if batch.rank not in publisher.streams:
            if self._num_streams >= MAX_STREAMS:
                self.num_refused += 1
                return
            publisher.streams[batch.rank] = self._stream(recorded, batch.rank)
        publisher.take(recorded, batch)

    def finish(self) -> None:
        """Nothing more will come: what is held is applied, what is missing is told."""
        for publisher in self._publishers.values():
            publisher.follow(publisher.lanes.finish(publisher.now_ns))

    def streams(self) -> Iterator[RecordedStream]:
        """In the order in which they were first heard."""
        for publisher in self._publishers.values():
            yield from publisher.streams.values()

    def reports(self, format: Format) -> tuple[StreamReport, ...]:
        return tuple(stream.report(format) for stream in self.streams())

    def _publisher(self, recorded: Recorded) -> _Publisher:
        key = (recorded.case_line, recorded.stream)
        if key not in self._publishers:
            holds = recorded.holds_for_replay
            lanes = RankLanes(lambda: BatchSequencer[Delivery](None, hold_for_replay=holds), rank_of)
            self._publishers[key] = _Publisher(lanes)
        return self._publishers[key]

    def _stream(self, recorded: Recorded, rank: Rank) -> RecordedStream:
        self._num_streams += 1
        name = f"case {recorded.case}, {recorded.stream}" if recorded.case else recorded.stream
        return RecordedStream(name, rank, recorded.store_semantics or self._semantics)


def _time_ns(recorded: Recorded) -> int | None:
    """When it was received, or made: engines' clocks and ours are not mixed, since a recording tells one or the other
    of all its batches.
    """
    if recorded.received_ns is not None:
        return recorded.received_ns
    batch = recorded.batch
    time_s = batch.elapsed_s if batch.ts is None else batch.ts
    return round(time_s * 1e9) if time_s is not None and 0 <= time_s < float(1 << 33) else None
