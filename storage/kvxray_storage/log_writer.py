"""The one thread that writes: takes what waits, cuts chunks, commits in groups, and tries again until a commit holds.

While the database refuses (a full disk, a lock, a server that went away) or its file is gone, nothing taken is given
up and nothing is acknowledged: the bounded queue fills, and what no longer fits is refused at its door. Everything that
other threads see is behind `changed`, one condition shared with the log.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Final

from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.database import Database
from kvxray_storage.epoch_folds import REFUSALS, EpochFolds
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.errands import Errands
from kvxray_storage.open_chunks import OpenChunks
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.refusals import why_not_written
from kvxray_storage.room import NoRoom, Room
from kvxray_storage.set_aside import Apart, Unwritable, blaming_entries
from kvxray_storage.write_queue import Arrived, Entry, WriteQueue
from kvxray_storage.writer_claim import WriterClaim
from kvxray_storage.writer_transactions import WriterTransactions

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
MAX_BATCH: Final = 16
"""Chunks and keyframes in one commit: more gain nothing (measured), and delay the cursor."""

logger = logging.getLogger(__name__)


class LogWriter(threading.Thread):
    """Shared state, read and written under `changed` only: `queue`, `committed` (what the database has of each epoch),
    `failed`, `stored_events`, `num_chunks`, `stopped`, the flush counters.

    The open chunks and the progress that runs ahead of the commits belong to the thread alone.
    """

    def __init__(
        self,
        database: Database,
        queue: WriteQueue,
        changed: threading.Condition,
        chunk_events: int,
        seconds: float,
        claim: WriterClaim,
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
        self.errands = Errands(changed)
        self._database = database
        self.room = Room(database, changed)
        self._transactions = WriterTransactions(database, claim)
        self._chunk_events = chunk_events
        self._chunk_seconds = seconds
        self._close_by: float | None = None
        self._closing = threading.Event()
        self._taken_bytes = 0
        self._taken_record_bytes = 0
        writing = partial(self.room.guarded, self._transactions.begin, 0, is_place=True)
        self._packer = Packer()
        self._apart = Apart()
        self._folds = EpochFolds(database, writing, self._packer)
        self._open_chunks = OpenChunks(
            self._folds, self._packer, self._apart.unopened, self._progress, chunk_events, seconds
        )

    def close(self, timeout_s: float) -> None:
        """Writes what waits and stops; after `timeout_s` of refusals it stops all the same."""
        with self.changed:
            self._close_by = time.monotonic() + timeout_s
            self._closing.set()
            self.changed.notify_all()

    def look_back(self) -> None:
        """Folds what earlier logs may have left unfolded, too."""
        with self.changed:
            self._folds.left.wanted = True
            self.changed.notify_all()

    def run(self) -> None:
        try:
            while self._wait_for_work():
                began_at = time.monotonic()
                batch, flushed = self._collect()
                if not self._commit(batch, flushed):
                    break
                self._folds.settle()
                self._folds.catch_up()
                self.errands.run(self._transactions.begin, time.monotonic() - began_at)
        except Exception:
            logger.exception("the event log's writer stopped")
            with self.changed:
                self.failed = "The event log stopped because of an internal error; restart kvxray and report its log."
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()
            self.errands.close()
            self._packer.close()

    def check_integrity(self) -> None:
        """Call under `changed`. What is the thread's own is looked at only when it has stopped."""
        self.queue.check_integrity(self._taken_bytes)
        if self.stopped:
            self._folds.check_integrity()
            self._open_chunks.check_integrity()

    def _wait_for_work(self) -> bool:
        """Sleeps until a chunk is full or due, or a flush or the end is wanted. False: closed, and nothing is left."""
        with self.changed:
            while True:
                now = time.monotonic()
                due = self._due_at()
                if self._closing.is_set():
                    return due is not None
                due = min((at for at in (due, self._folds.due_at) if at is not None), default=None)
                if self.flush_wanted > self.flush_done or self.queue.num_events >= self._chunk_events:
                    return True
                if len(self.errands):
                    return True
                if due is not None and due <= now:
                    return True
                self.changed.wait(None if due is None else due - now)

    def _due_at(self) -> float | None:
        taken, waiting = self._open_chunks.due_at, self.queue.first_at
        if waiting is None:
            return taken
        return waiting + self._chunk_seconds if taken is None else min(taken, waiting + self._chunk_seconds)

    def _progress(self, key: EpochKey) -> Progress:
        with self.changed:
            return self.committed[key]

    def _collect(self) -> tuple[CommitBatch, int]:
        """What the next commit holds, and the flush that it fulfils."""
        batch = CommitBatch()
        with self.changed:
            wanted = self.flush_wanted
        while batch.num_parts < MAX_BATCH:
            with self.changed:
                waiting = self.queue.num_events
                run = self.queue.take_run(self._chunk_events)
                if not run:
                    batch.findings.extend(self.queue.take_findings())
                    break
                for taken in run:
                    self._count_taken(*taken)
            for entry, num_bytes in run:
                self._open_chunks.put(batch, entry, num_bytes, waiting)
                waiting -= entry.message.header.n if isinstance(entry, Arrived) else 0
        everything = not run and (self._closing.is_set() or wanted > self.flush_done)
        self._open_chunks.cut(batch, everything=everything, full=not run)
        self._folds.finish(batch)
        batch.progress = {key: self._open_chunks.ahead[key] for key in batch.epochs_moved()}
        return batch, wanted if everything else self.flush_done

    def _count_taken(self, entry: Entry, num_bytes: int) -> None:
        if isinstance(entry, Arrived | Keyframe):
            self._taken_bytes += num_bytes
        else:
            self._taken_record_bytes += num_bytes

    def _commit(self, batch: CommitBatch, flushed: int) -> bool:
        """Until it holds, without what cannot be stored. False: the log closes and the database still refuses."""
        try:
            is_held = self._write(batch)
        except Unwritable:
            broken = self._apart.write(batch, self.committed, self._write)
            is_held = broken is not None
            self._folds.begin_again(broken or ())
            self._open_chunks.ahead.update(batch.progress)
        if is_held:
            self._settle(batch, flushed)
        return is_held

    def _write(self, batch: CommitBatch) -> bool:
        """Tries until it holds. False: the log closes and the database still refuses. Raises Unwritable."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                if batch:
                    begin, is_place = self._transactions.begin, batch.is_place
                    with blaming_entries():
                        num_bytes = batch.num_bytes
                    with self.room.guarded(begin, num_bytes, is_place=is_place) as connection, blaming_entries():
                        batch.write(connection)
            except NoRoom:
                self.room.wait(self.errands, self._transactions.begin, lambda: self._close_by)
                continue
            except REFUSALS as error:
                # Perhaps it makes the room that is lacking.
                self.errands.run(self._transactions.begin, pause)
                if not self._wait_to_retry(error, pause):
                    return False
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            return True

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
        sentence = why_not_written(place, error)
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
