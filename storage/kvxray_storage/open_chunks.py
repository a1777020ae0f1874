"""The chunks that are open, one an epoch: what was taken goes into them, or beside them into the next commit, in order.

Belongs to the writer's thread alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Final

from kvxray_storage.chunk_builder import ChunkBuilder, ClosedChunk
from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.epoch_folds import EpochFolds, with_names
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey, Gap, Keyframe, OpenedEpoch, Repair
from kvxray_storage.set_aside import gap_of
from kvxray_storage.state_kinds import read_descriptor
from kvxray_storage.write_queue import Arrived, Entry

GROWTH: Final = 6
"""How much larger chunks may grow: folding and storing 24,576 events together takes half the time of doing it by 4,096
(measured), a state at some moment none longer."""
MUCH: Final = 3
"""So many times a chunk's events must be open or wait for that."""


class OpenChunks:
    """`ahead`: the progress of each epoch with all that was put, before it is committed. `unopened`: epochs of which
    nothing can be stored. `committed`: what the database has of an epoch.
    """

    def __init__(
        self,
        folds: EpochFolds,
        packer: Packer,
        unopened: Set[EpochKey],
        committed: Callable[[EpochKey], Progress],
        chunk_events: int,
        chunk_seconds: float,
    ) -> None:
        self.ahead: dict[EpochKey, Progress] = {}
        self._folds = folds
        self._packer = packer
        self._unopened = unopened
        self._committed = committed
        self._chunk_events = chunk_events
        self._chunk_seconds = chunk_seconds
        self._builders: dict[EpochKey, ChunkBuilder] = {}

    @property
    def due_at(self) -> float | None:
        """Monotonic seconds when the first of them must be cut; None: none is open."""
        due = [builder.due_at for builder in self._builders.values() if builder.due_at is not None]
        return min(due, default=None)

    def put(self, batch: CommitBatch, entry: Entry, num_bytes: int, waiting: int) -> None:
        """waiting: events that wait, the entry's own included."""
        is_record = not isinstance(entry, Arrived | Keyframe)
        if is_record or entry.key in self._unopened:
            batch.queue_bytes += 0 if is_record else num_bytes
            batch.record_bytes += num_bytes if is_record else 0
        if entry.key in self._unopened:
            return
        if isinstance(entry, Arrived):
            builder = self._builder(entry.key)
            is_much = builder.num_events + waiting >= MUCH * self._chunk_events
            most = GROWTH * self._chunk_events if is_much else 0
            self._close(batch, builder, builder.add(entry.message, num_bytes, entry.at, most))
        elif isinstance(entry, Repair):
            batch.records.append(entry)
        elif isinstance(entry, Gap):
            self._cut_one(batch, entry.key)
            batch.records.append(entry)
            self.ahead[entry.key] = self.ahead[entry.key].with_gap(entry)
        elif isinstance(entry, Keyframe):
            self._cut_one(batch, entry.key)
            frame, state = with_names(entry)
            batch.keyframes.append(self._folds.take_keyframe(batch, frame, state))
            batch.queue_bytes += num_bytes
        else:
            self._open(batch, entry)

    def cut(self, batch: CommitBatch, *, everything: bool, full: bool) -> None:
        """Cuts the chunks that have been open long enough, those that are full and were left to grow, or all."""
        now = time.monotonic()
        for key, builder in self._builders.items():
            if builder.due_at is None:
                continue
            if everything or builder.due_at <= now or (full and builder.is_full):
                self._cut_one(batch, key)

    def check_integrity(self) -> None:
        for builder in self._builders.values():
            builder.check_integrity()

    def _open(self, batch: CommitBatch, opened: OpenedEpoch) -> None:
        """What is left of the source's other epochs goes first; then they need no builder any more."""
        for key in [key for key in self._builders if key.source_id == opened.key.source_id]:
            self._cut_one(batch, key)
            del self._builders[key]
        batch.epochs.append(opened)
        self._folds.open(batch, opened.key, read_descriptor(opened.descriptor.encode()))
        self.ahead.setdefault(opened.key, self._committed(opened.key))

    def _builder(self, key: EpochKey) -> ChunkBuilder:
        if key not in self._builders:
            self._builders[key] = ChunkBuilder(key, self._chunk_events, self._chunk_seconds, self._packer)
        return self._builders[key]

    def _cut_one(self, batch: CommitBatch, key: EpochKey) -> None:
        builder = self._builders.get(key)
        chunk = builder.cut() if builder is not None else None
        if builder is not None:
            self._close(batch, builder, [] if chunk is None else [chunk])

    def _close(self, batch: CommitBatch, builder: ChunkBuilder, chunks: list[ClosedChunk]) -> None:
        key = builder.key
        for chunk in chunks:
            batch.queue_bytes += chunk.queue_bytes
            if key not in self._unopened:
                batch.chunks.append(chunk)
                self.ahead[key] = self.ahead[key].with_chunk(chunk)
                self._folds.take_chunk(batch, chunk)
        for lost in builder.take_unbuilt():
            batch.queue_bytes += lost.queue_bytes
            batch.records.append(gap := gap_of(key, lost.first, lost.last))
            self.ahead[key] = self.ahead[key].with_gap(gap)
