"""Databases that can be made to fail, and a source that goes on meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from pathlib import Path

from kvxray_storage import history

from tests.storage.crash_writer import EVENTS, message, name_of
from tests.storage.told_messages import T0_NS, expand

MAX_QUEUE_BYTES = 200_000
PACE_S = 0.0005
WAIT_S = 60.0


class SmallDisk:
    """A file system in memory that is really full when it is said to be; needs the right to mount one."""

    def __init__(self, num_bytes: int) -> None:
        # Not in pytest's folders: a server that is somebody else's could not get there.
        self.folder = folder = Path(tempfile.mkdtemp(prefix="kvxray-disk-"))
        self._ballast = folder / "ballast"
        command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)]
        subprocess.run(command, check=True, capture_output=True)

    def fill(self) -> None:
        """To the last byte."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._ballast.unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        self.folder.rmdir()


class Source(threading.Thread):
    """Hands message after message to a log, and records a gap where it refused one, until `end`.

    `taken`, `refused`: numbers of messages. `most_queued`: the most bytes that waited.
    """

    def __init__(self, log, key) -> None:
        # A test that fails does not end it; then it must not keep the run from ending.
        super().__init__(daemon=True)
        self.taken: list[int] = []
        self.refused: list[int] = []
        self.most_queued = 0
        self._log, self._key = log, key
        self._ended = threading.Event()

    def run(self) -> None:
        wire_seq = 0
        while not self._ended.wait(PACE_S):
            if self._log.append(self._key, message(wire_seq)):
                self.taken.append(wire_seq)
            else:
                self.refused.append(wire_seq)
                first = EVENTS * wire_seq
                self._log.gap(self._key, wire_seq, wire_seq, first, first + EVENTS - 1, T0_NS, "the queue was full")
            self.most_queued = max(self.most_queued, self._log.stats().queue_bytes)
            wire_seq += 1

    def end(self) -> None:
        self._ended.set()
        self.join()

    def check_stored(self, database) -> None:
        """All that was taken is stored, once, as it was told; all that was refused stands in a gap; nothing else."""
        names = {wire_seq: name_of(wire_seq) for wire_seq in self.taken}
        told = expand([message(wire_seq) for wire_seq in self.taken], names)
        assert history.events(database, self._key, 0, 10_000_000) == told
        gaps = history.gaps(database, self._key, 1_000_000)
        missing = sorted(wire_seq for gap in gaps for wire_seq in range(gap.wire_seq0, gap.wire_seq1 + 1))
        assert missing == self.refused
        assert all((gap.seq0, gap.seq1) == (EVENTS * gap.wire_seq0, EVENTS * gap.wire_seq1 + 4) for gap in gaps)
        assert self.most_queued <= MAX_QUEUE_BYTES
