"""Follows a file that Dynamo's router records its events into: what is there, then what is added.

A file that was replaced, or cut, is read from its beginning. Its workers are told apart as publishers are.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import BinaryIO, Final

from kvxray_backend.observed.batch_intake import BatchIntake, Steps
from kvxray_backend.observed.engine_findings import Unreadable
from kvxray_backend.observed.listener import Consumer
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.hand_over import Publisher
from kvxray_backend.sources.foreign.token_chains import TokenChains

READ_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 16 << 20
LOOK_S: Final = 0.5


class FileListener:
    """From its making to `close`. A line counts when its end is there."""

    def __init__(self, spec: ObserveSpec, chains: TokenChains, consumer: Consumer) -> None:
        assert spec.events is not None, "there is a file to follow"
        self.trouble = ""
        self._path = path_of(spec.events)
        self._consumer = consumer
        self._woken = threading.Event()
        self._events = DynamoEvents(chains)
        self._intake = BatchIntake()
        self._file: BinaryIO | None = None
        self._rest = b""
        self._is_too_long = False
        self._num_too_long = 0
        self._look_at_s = 0.0

    @property
    def unreadable(self) -> Unreadable:
        num = self._num_too_long + self._intake.num_unplaced
        return Unreadable(num, "It is no line as Dynamo records it.")

    @property
    def is_behind(self) -> bool:
        return False  # nothing waits for what is missing

    @property
    def num_dropped(self) -> int:
        return 0  # what is not asked for waits where it is

    def turn(self, wait_s: float) -> None:
        if self._read():
            self._look_at_s = 0.0
        elif time.monotonic() >= self._look_at_s:
            self._look_at_s = time.monotonic() + LOOK_S
            self._look_after()
        else:
            self._woken.wait(wait_s)
        self._consumer.advance()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        try:
            self._consumer.take_in_turns(self._intake.finish())
        finally:
            self._close_file()
            self._consumer.let_go()

    def _read(self) -> bool:
        """Whether there was something."""
        data = self._file.read(READ_BYTES) if self._file is not None else b""
        if not data:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        steps: Steps = []
        for line in lines:
            if self._is_too_long:
                self._is_too_long = False  # the end of one that was given up
            elif line.strip():
                batch = self._events.line(line)
                publisher = Publisher(0, b"" if batch.worker is None else f"worker {batch.worker}".encode())
                steps += self._intake.offer(publisher, batch, len(line))
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._is_too_long = b"", True
            self._num_too_long += 1
        self._consumer.take_in_turns(steps)
        return True

    def _look_after(self) -> None:
        """Opens the file, and again where another has its name or it has become shorter."""
        try:
            there = os.stat(self._path)
            if not stat.S_ISREG(there.st_mode):
                self.trouble = f"{self._path} is no file."
                return
            if self._file is not None:
                mine = os.fstat(self._file.fileno())
                if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino) and there.st_size >= self._file.tell():
                    return
            self._close_file()
            self._file = self._path.open("rb")
        except OSError as error:
            self.trouble = f"The file {self._path} cannot be read: {error.strerror}."
            return
        self.trouble, self._rest, self._is_too_long = "", b"", False

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def path_of(address: str) -> Path:
    """`address`: file:///path."""
    return Path(address.removeprefix("file://"))
