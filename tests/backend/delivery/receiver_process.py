"""A receiver in a process of its own, so that it can be killed: what it took is in a file before it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.backend.delivery import receiver_script
from tests.backend.served import until


class ReceiverProcess:
    """On one port, however often it is started."""

    def __init__(self, port: int, file: Path) -> None:
        self.port = port
        self.file = file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, receiver_script.__file__, str(self.port), str(self.file)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the receiver did not start"

    def kill(self) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def came(self) -> list[tuple[str, list[str]]]:
        """Id of the delivery, ids of notifications; a line that a kill cut off was never answered."""
        lines = self.file.read_text().splitlines(keepends=True) if self.file.exists() else []
        return [(one["delivery"], one["ids"]) for one in (json.loads(line) for line in lines if line.endswith("\n"))]

    def until_more_came(self, num: int) -> None:
        before = self.num_came()
        until(lambda: self.num_came() >= before + num)

    def num_came(self) -> int:
        return self.file.read_bytes().count(b"\n") if self.file.exists() else 0
