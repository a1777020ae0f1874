"""The event log: takes messages, keyframes, gaps and findings without ever blocking, and one thread makes them durable.

What is *acknowledged* stands in the committed cursor: it was stored in the same transaction. Reads
(`kvxray_storage.history`) use connections of their own and never wait for the writer, nor it for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Final

import msgspec
from kvxray_engine.errors import UserError
from kvxray_engine.stream.codec import Message, encode_descriptor
from kvxray_engine.stream.schema import Descriptor, Name

from kvxray_storage.database import OPENING_ERRORS, Database
from kvxray_storage.epoch_directory import EpochDirectory
from kvxray_storage.epoch_progress import Admission, Arrival
from kvxray_storage.errands import Write
from kvxray_storage.log_writer import LogWriter
from kvxray_storage.records import Cursor, EpochKey, FindingRow, Gap, Keyframe, LogStats, OpenedEpoch, Repair
from kvxray_storage.refusals import why_not_opened
from kvxray_storage.server_session import storable
from kvxray_storage.write_queue import RECORD_BYTES, Arrived, WriteQueue, message_bytes
from kvxray_storage.writer_claim import claim_writer

OPEN_WAIT_S: Final = 2.0
CLOSE_TIMEOUT_S: Final = 5.0


class EventLog:
    """Safe to call from any thread; the messages of one epoch come from one thread at a time.

    `append`, `keyframe`, `repair_gap` and `finding` put into a bounded queue and return; False means that it was full,
    or the log closed. A gap is taken as long as the log is open. The writer commits when a chunk is full or
    `chunk_seconds` old.
    """

    def __init__(
        self,
        database: Database,
        *,
        chunk_events: int = 4096,
        chunk_seconds: float = 0.25,
        max_queue_bytes: int = 64 << 20,
    ) -> None:
        """Raises UserError when another kvxray writes to the database, or what it holds cannot be read."""
        self._claim = claim_writer(database)
        try:
            self._directory = EpochDirectory(database)
            stored_events, num_chunks = self._directory.totals()
        except OPENING_ERRORS as error:
            self._claim.release()
            raise UserError(why_not_opened(database.place, error)) from error
        self._changed = threading.Condition()
        self._queue = WriteQueue(max_queue_bytes)
        self._admissions: dict[EpochKey, Admission] = {}
        self._dropped = self._dropped_events = self._duplicates = 0
        self._closed = False
        self._writer = LogWriter(database, self._queue, self._changed, chunk_events, chunk_seconds, self._claim)
        self._writer.stored_events, self._writer.num_chunks = stored_events, num_chunks
        self.room = self._writer.room
        self._chunk_events = chunk_events
        self._writer.start()

    def open_epoch(
        self,
        source: str,
        labels: Mapping[str, str],
        incarnation: str,
        descriptor: Descriptor,
        wall_ns: int,
        *,
        is_past: bool = False,
    ) -> EpochKey:
        """The epoch of this life of the source: the one it already has (its history goes on), else the next number.

        The earlier ones end at `wall_ns`; is_past: its row is stored already, and nothing ends. Waits a moment for the
        commit, but a database that takes no writes does not stop it. Call it before anything else of that epoch.
        """
        source, incarnation = storable(source), storable(incarnation)
        key = self._directory.find_or_number(source, incarnation)
        opened = OpenedEpoch(
            key=key,
            source=source,
            labels=msgspec.json.encode(dict(labels), order="sorted").decode(),
            incarnation=incarnation,
            descriptor=encode_descriptor(descriptor).decode(),
            wall_ns=wall_ns,
            is_past=is_past,
        )
        self._begin(key)
        with self._changed:
            self._queue.offer_record(opened, time.monotonic())
            failing = self._writer.failed is not None
        if not failing:
            self.flush(OPEN_WAIT_S)
        return key

    def next_epoch(self, source: str) -> int:
        """The number that the next new incarnation of a source will get."""
        return self._directory.next_epoch(storable(source))

    def append(self, key: EpochKey, message: Message) -> bool:
        """A message of events, or a changed descriptor, already checked.

        False: the queue is full (or the log closed), the message is not stored, and the caller records a gap. A message
        that was taken before is stored once; one that fills a hole is stored in its place.
        """
        assert message.header.type in ("events", "descriptor"), f"a {message.header.type} is not stored"
        num_bytes, now = message_bytes(message), time.monotonic()
        with self._changed:
            admission = self._admissions[key]
            if admission.judge(message.header.wire_seq) is Arrival.duplicate:
                self._duplicates += 1
                return True
            if self._is_over() or not self._queue.offer(Arrived(key, message, now), num_bytes, now):
                self._dropped += 1
                self._dropped_events += message.header.n
                return False
            admission.take(message.header.wire_seq)
            self._wake()
        return True

    def keyframe(
        self,
        key: EpochKey,
        seq: int,
        wire_seq: int,
        t_ns: int,
        state: bytes,
        kind: str = "pool",
        names: Mapping[int, Name] | None = None,
    ) -> bool:
        """The state before event `seq` of message `wire_seq` (a BlockMap's next ones); cuts the chunk.

        names: the holders' that no stored message told; None = all that the pool snapshot `state` has.
        """
        frame = Keyframe(key, seq, wire_seq, t_ns, state, kind, names)
        return self._offer(frame, len(state) + RECORD_BYTES)

    def gap(
        self, key: EpochKey, wire_seq0: int, wire_seq1: int, seq0: int, seq1: int | None, wall_ns: int, reason: str
    ) -> bool:
        """Messages wire_seq0..wire_seq1, events seq0..seq1 (None = not known) are missing: the cursor moves past."""
        assert wire_seq0 <= wire_seq1, "a gap holds at least one message"
        assert max(wire_seq1, seq1 or 0) < 1 << 63, "no database has room for such a number"
        with self._changed:
            if not self._offer_record(Gap(key, wire_seq0, wire_seq1, seq0, seq1, wall_ns, reason)):
                return False
            self._admissions[key].miss(wire_seq0, wire_seq1)
        return True

    def repair_gap(self, key: EpochKey, wire_seq0: int, wire_seq1: int, wall_ns: int) -> bool:
        """The gaps that lie within wire_seq0..wire_seq1 were filled: their messages were appended after all."""
        with self._changed:
            return self._offer_record(Repair(key, wire_seq0, wire_seq1, wall_ns))

    def finding(self, row: FindingRow) -> bool:
        """Stores a finding, or what became of it: the newest state of an `id` stays."""
        with self._changed:
            taken = not self._is_over() and self._queue.offer_finding(row, time.monotonic())
            self._wake()
        return taken

    def errand(self, write: Write) -> Future[None]:
        """Runs `write` in a transaction of the writer's own, between two commits; it must be short. The future tells
        when that is durable, or what was raised (`NoWriter`: the log closed first).
        """
        return self._writer.errands.send(write)

    def look_back(self) -> None:
        """Once whatever is opened is folded, so are the newest epochs that are not: an earlier log may have ended
        before it had folded all of them.
        """
        self._writer.look_back()

    def followed(self) -> set[EpochKey]:
        """The epochs that were opened since the log was, the newest of each source: those that may go on."""
        with self._changed:
            newest: dict[int, EpochKey] = {}
            for key in self._admissions:
                newest[key.source_id] = max(key, newest.get(key.source_id, key))
            return set(newest.values())

    def give_up_before(self, key: EpochKey, wire_seq: int) -> None:
        """Messages before `wire_seq` have no place any more: one that was missing and comes after all is dropped."""
        with self._changed:
            admission = self._admissions.get(key)
            if admission is not None and wire_seq > 0:
                admission.missing.remove(0, wire_seq - 1)

    def cursor(self, key: EpochKey) -> Cursor | None:
        """How far the epoch is durable; None when nothing of it is."""
        with self._changed:
            progress = self._writer.committed.get(key)
        return self._directory.progress(key).cursor if progress is None else progress.cursor

    def flush(self, timeout_s: float) -> bool:
        """Commits all that was handed in before; False when that took longer (the database refuses, or is slow)."""
        with self._changed:
            self._writer.flush_wanted += 1
            wanted = self._writer.flush_wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._writer.flush_done >= wanted or self._writer.stopped, timeout_s)
            return self._writer.flush_done >= wanted

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Commits what waits and stops. False: the database refused to the end, and what it had not taken is lost."""
        with self._changed:
            self._closed = True
        self._writer.close(timeout_s)
        # A server that stopped answering in the middle of a commit can keep the thread for longer than it promises.
        self._writer.join(timeout_s + CLOSE_TIMEOUT_S)
        self._claim.release()
        with self._changed:
            return self._queue.num_bytes == 0 and len(self._queue) == 0 and self._writer.failed is None

    @property
    def failed(self) -> str | None:
        """One sentence while the database refuses writes; None when all is well."""
        with self._changed:
            return self._writer.failed

    @property
    def dropped(self) -> int:
        """Messages refused because the queue was full."""
        with self._changed:
            return self._dropped

    def stats(self) -> LogStats:
        with self._changed:
            return LogStats(
                queue_bytes=self._queue.num_bytes,
                stored_events=self._writer.stored_events,
                chunks=self._writer.num_chunks,
                dropped=self._dropped,
                dropped_events=self._dropped_events,
                duplicates=self._duplicates,
            )

    def check_integrity(self) -> None:
        """Asserts what must hold at any moment: the queue's bytes add up, no cursor is beyond what was handed in."""
        with self._changed:
            self._writer.check_integrity()
            for key, admission in self._admissions.items():
                admission.check_integrity()
                cursor = self._writer.committed[key].cursor
                ahead = cursor is not None and cursor.next_wire_seq > (admission.next_wire_seq or 0)
                assert not ahead, f"the cursor of {key} is ahead of what was handed in"

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, key: EpochKey) -> None:
        """Takes up the epoch where the database has it, unless this log follows it already."""
        with self._changed:
            if key in self._admissions:
                return
        progress, admission = self._directory.progress(key), self._directory.admission(key)
        with self._changed:
            self._writer.committed.setdefault(key, progress)
            self._admissions.setdefault(key, admission)

    def _offer(self, frame: Keyframe, num_bytes: int) -> bool:
        with self._changed:
            assert frame.key in self._admissions, "open the epoch first"
            taken = not self._is_over() and self._queue.offer(frame, num_bytes, time.monotonic())
            self._wake()
        return taken

    def _offer_record(self, record: Gap | Repair) -> bool:
        assert record.key in self._admissions, "open the epoch first"
        taken = not self._is_over() and self._queue.offer_record(record, time.monotonic())
        self._wake()
        return taken

    def _is_over(self) -> bool:
        """Nothing more is taken: the log is closed, or its thread stopped."""
        return self._closed or self._writer.stopped

    def _wake(self) -> None:
        """Wakes the writer only when it would oversleep: it knows when the oldest entry is due, once there is one."""
        if len(self._queue) <= 1 or self._queue.num_events >= self._chunk_events:
            self._changed.notify_all()


__all__ = ["Cursor", "EpochKey", "EventLog", "FindingRow", "LogStats"]
