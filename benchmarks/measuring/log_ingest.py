"""Taking messages in: from the socket to the commit, in slices, so that other things can be measured in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import decode, decode_descriptor
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from benchmarks.measuring.generated_log import FLUSH_S
from benchmarks.measuring.message_file import MessageFile

FULL_PAUSE_S = 0.002
LOOK_EVERY = 16


@dataclass(frozen=True, slots=True)
class Slice:
    """`wall_s`: from asking for its first message to the commit of its last. `cpu_s`: of this whole process."""

    rows: int
    wall_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.rows / self.wall_s


class Ingest:
    """One epoch that goes into the log as the backend writes it. `queue_peak`: bytes that waited, at most."""

    def __init__(self, log: EventLog, source: str, file: MessageFile, payloads: Iterator[bytes]) -> None:
        header = file.began().header
        began = BlockMap(decode_descriptor(header.descriptor), source=source, incarnation=header.incarnation)
        self.queue_peak = 0
        self.rows = 0
        self._log = log
        self._payloads = payloads
        self.key: EpochKey = log.open_epoch(source, {}, header.incarnation, began.descriptor, header.t0_wall_ns)
        log.keyframe(self.key, 0, 0, header.t0_wall_ns, snapshot.dump(began))

    def take(self, rows: int) -> Slice:
        """The next messages, with so many events or a few more, until they are durable."""
        cpu, begun = time.process_time(), time.perf_counter()
        taken = self._receive(rows)
        assert self._log.flush(FLUSH_S), "the database takes no writes"
        self.rows += taken
        return Slice(taken, time.perf_counter() - begun, time.process_time() - cpu)

    def _receive(self, rows: int) -> int:
        taken = count = 0
        while taken < rows:
            payload = next(self._payloads, None)
            if payload is None:
                break
            message = decode(payload)
            while not self._log.append(self.key, message):
                self._note_queue()
                time.sleep(FULL_PAUSE_S)
            taken, count = taken + message.header.n, count + 1
            if count % LOOK_EVERY == 0:
                self._note_queue()
        self._note_queue()
        return taken

    def _note_queue(self) -> None:
        self.queue_peak = max(self.queue_peak, self._log.stats().queue_bytes)
