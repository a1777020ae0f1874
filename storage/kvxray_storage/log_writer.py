"""The one thread that writes: takes what waits, cuts chunks, commits in groups, and tries again until a commit holds.

While the database refuses (a full disk, a lock, a server that went away) or its file is gone, nothing taken is given
up and nothing is acknowledged: the bounded queue fills, and what no longer fits is refused at its door. Everything that
other threads see is behind `changed`, one condition shared with the log.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.schema import Name

from kvxray_storage.chunk_builder import ChunkBuilder, ClosedChunk
from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.database import Database
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.file_watch import FileGone, FileWatch
from kvxray_storage.records import EpochKey, Gap, Keyframe, OpenedEpoch, Repair
from kvxray_storage.refusals import why_gone, why_not_written
from kvxray_storage.write_queue import Arrived, Entry, WriteQueue

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
MAX_BATCH: Final = 16
"""Chunks and keyframes in one commit: more gain nothing (measured), and delay the cursor."""

logger = logging.getLogger(__name__)


class LogWriter(threading.Thread):
    """Shared state, read and written under `changed` only: `queue`, `committed` (what the database has of each epoch),
    `failed`, `stored_events`, `num_chunks`, `stopped`, the flush counters.

    The builders and the progress that runs ahead of the commits belong to the thread alone.
    """

    def __init__(
        self, database: Database, queue: WriteQueue, changed: threading.Condition, chunk_events: int, seconds: float
    ) -> None:
        super().__init__(name="kvxray-event-log", daemon=True)
        self.queue = queue
        self.changed = changed
        self.committed: dict[EpochKey, Progress] = {}
        self.failed: str | None = None
        self.stored_events = 0
        self.num_chunks = 0
        self.stopped = False
        self.flush_wanted = 0
        self.flush_done = 0
        self._database = database
        self._file = FileWatch(database.path)
        self._was_gone = False
        self._chunk_events = chunk_events
        self._chunk_seconds = seconds
        self._close_by: float | None = None
        self._closing = threading.Event()
        self._taken_bytes = 0
        self._taken_record_bytes = 0
        self._ahead: dict[EpochKey, Progress] = {}
        self._builders: dict[EpochKey, ChunkBuilder] = {}

    def close(self, timeout_s: float) -> None:
        """Writes what waits and stops; after `timeout_s` of refusals it stops all the same."""
        with self.changed:
            self._close_by = time.monotonic() + timeout_s
            self._closing.set()
            self.changed.notify_all()

    def run(self) -> None:
        try:
            while self._wait_for_work():
                batch, flushed = self._collect()
                if not self._commit(batch, flushed):
                    break
        except Exception:
            logger.exception("the event log's writer stopped")
            with self.changed:
                self.failed = "The event log stopped because of an internal error; restart kvxray and report its log."
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()

    def check_integrity(self) -> None:
        """Call under `changed`. The thread's own builders are looked at only when it has stopped."""
        self.queue.check_integrity(self._taken_bytes)
        if self.stopped:
            for builder in self._builders.values():
                builder.check_integrity()

    def _wait_for_work(self) -> bool:
        """Sleeps until a chunk is full or due, or a flush or the end is wanted. False: closed, and nothing is left."""
        with self.changed:
            while True:
                now = time.monotonic()
                due = self._due_at()
                if self._closing.is_set():
                    return due is not None
                if self.flush_wanted > self.flush_done or self.queue.num_events >= self._chunk_events:
                    return True
                if due is not None and due <= now:
                    return True
                self.changed.wait(None if due is None else due - now)

    def _due_at(self) -> float | None:
        due = [builder.due_at for builder in self._builders.values() if builder.due_at is not None]
        if self.queue.first_at is not None:
            due.append(self.queue.first_at + self._chunk_seconds)
        return min(due, default=None)

    def _collect(self) -> tuple[CommitBatch, int]:
        """What the next commit holds, and the flush that it fulfils."""
        batch = CommitBatch()
        with self.changed:
            wanted = self.flush_wanted
        while len(batch.chunks) + len(batch.keyframes) < MAX_BATCH:
            with self.changed:
                taken = self.queue.take()
                if taken is None:
                    batch.findings.extend(self.queue.take_findings())
                    break
                self._count_taken(*taken)
            self._put(batch, *taken)
        everything = taken is None and (self._closing.is_set() or wanted > self.flush_done)
        self._cut(batch, everything=everything)
        batch.progress = {key: self._ahead[key] for key in batch.epochs_moved()}
        return batch, wanted if everything else self.flush_done

    def _count_taken(self, entry: Entry, num_bytes: int) -> None:
        if isinstance(entry, Arrived | Keyframe):
            self._taken_bytes += num_bytes
        else:
            self._taken_record_bytes += num_bytes

    def _put(self, batch: CommitBatch, entry: Entry, num_bytes: int) -> None:
        if isinstance(entry, Arrived):
            builder = self._builder(entry.key)
            self._close_chunks(batch, builder.add(entry.message, num_bytes, entry.at))
            return
        if isinstance(entry, Repair):
            batch.records.append(entry)
        elif isinstance(entry, Gap):
            self._cut_one(batch, entry.key)
            batch.records.append(entry)
            self._ahead[entry.key] = self._ahead[entry.key].with_gap(entry)
        elif isinstance(entry, Keyframe):
            self._cut_one(batch, entry.key)
            batch.keyframes.append(_with_names(entry))
            batch.queue_bytes += num_bytes
        else:
            self._open(batch, entry)
        if not isinstance(entry, Keyframe):
            batch.record_bytes += num_bytes

    def _open(self, batch: CommitBatch, opened: OpenedEpoch) -> None:
        """What is left of the source's other epochs goes first; then they need no builder any more."""
        for key in [key for key in self._builders if key.source_id == opened.key.source_id]:
            self._cut_one(batch, key)
            del self._builders[key]
        batch.epochs.append(opened)
        with self.changed:
            self._ahead.setdefault(opened.key, self.committed[opened.key])

    def _builder(self, key: EpochKey) -> ChunkBuilder:
        if key not in self._builders:
            self._builders[key] = ChunkBuilder(key, self._chunk_events, self._chunk_seconds)
        return self._builders[key]

    def _cut(self, batch: CommitBatch, *, everything: bool) -> None:
        """Cuts the chunks that have been open long enough, or all."""
        now = time.monotonic()
        for key, builder in self._builders.items():
            if builder.due_at is not None and (everything or builder.due_at <= now):
                self._cut_one(batch, key)

    def _cut_one(self, batch: CommitBatch, key: EpochKey) -> None:
        chunk = self._builders[key].cut() if key in self._builders else None
        if chunk is not None:
            self._close_chunks(batch, [chunk])

    def _close_chunks(self, batch: CommitBatch, chunks: list[ClosedChunk]) -> None:
        for chunk in chunks:
            batch.chunks.append(chunk)
            batch.queue_bytes += chunk.queue_bytes
            self._ahead[chunk.key] = self._ahead[chunk.key].with_chunk(chunk)

    def _commit(self, batch: CommitBatch, flushed: int) -> bool:
        """Tries until it holds. False: the log closes and the database still refuses."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                if batch:
                    self._check_file()
                    with self._database.writing() as connection:
                        batch.write(connection)
            except (sa.exc.SQLAlchemyError, FileGone) as error:
                if not self._wait_to_retry(error, pause):
                    return False
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            self._settle(batch, flushed)
            return True

    def _check_file(self) -> None:
        if self._file.is_gone():
            self._was_gone = True
            raise FileGone
        if self._was_gone:
            # Readers that came meanwhile opened what lay there instead; their connections are not ours to write to.
            self._database.engine.dispose()
            self._was_gone = False

    def _settle(self, batch: CommitBatch, flushed: int) -> None:
        """The batch is durable: only now its messages count as acknowledged, and their room is free."""
        with self.changed:
            if self.failed is not None:
                logger.warning("the database takes writes again")
            self.failed = None
            self.committed.update(batch.progress)
            self.stored_events += sum(chunk.num_events for chunk in batch.chunks)
            self.num_chunks += len(batch.chunks)
            self.queue.give_back(batch.queue_bytes, batch.record_bytes)
            self._taken_bytes -= batch.queue_bytes
            self._taken_record_bytes -= batch.record_bytes
            self.flush_done = flushed
            self.changed.notify_all()

    def _wait_to_retry(self, error: Exception, pause: float) -> bool:
        place = self._database.place
        sentence = why_gone(place) if isinstance(error, FileGone) else why_not_written(place, error)
        with self.changed:
            if self.failed is None:
                logger.warning("the database refuses writes: %s", str(error) or sentence)
            self.failed = sentence
            self.changed.notify_all()
            close_by = self._close_by
        if close_by is None:
            self._closing.wait(pause)
            return True
        if time.monotonic() >= close_by:
            return False
        time.sleep(FIRST_PAUSE_S)
        return True


def _with_names(keyframe: Keyframe) -> Keyframe:
    """A snapshot brings the names of requests that began before we listened: no message told them."""
    if keyframe.names is not None:
        return keyframe
    names: dict[int, Name] = {}
    if keyframe.kind == "pool":
        try:
            names = snapshot.load(keyframe.state).requests.names
        except BadMessage as error:
            # Stored as it is: what cannot be read today is still what the source sent.
            logger.warning("a keyframe's names cannot be read: %s", error)
    return Keyframe(keyframe.key, keyframe.seq, keyframe.wire_seq, keyframe.t_ns, keyframe.state, keyframe.kind, names)
