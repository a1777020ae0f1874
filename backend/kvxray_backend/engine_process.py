"""The demo's engine as a child process: started, watched and ended. Knows nothing of what it does.

The child ends by itself when this process dies, however it dies: it watches its standard input, which only we hold
open.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class EngineProcess:
    """One engine. `early_exit_code`: set when it ended before it was ready, by its own fault or the user's."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.early_exit_code: int | None = None
        self.is_ready = False
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._stopping = False

    def start(self, on_early_exit: Callable[[], None]) -> None:
        """Starts it; `on_early_exit` is called from a thread when it ends before it was ready."""
        child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._child = child
        self._watcher = threading.Thread(target=self._watch, args=(child, on_early_exit), daemon=True)
        self._watcher.start()

    def stop(self, patience_s: float = 10.0) -> None:
        """Asks it to end, waits, and ends it."""
        self._stopping = True
        child = self._child
        if child is None:
            return
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(patience_s)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._watcher is not None:
            self._watcher.join()

    def _watch(self, child: subprocess.Popen[bytes], on_early_exit: Callable[[], None]) -> None:
        assert child.stdout is not None, "the child's output is read here"
        assert child.stdin is not None, "the child's input is held open here"
        with child.stdin, child.stdout:
            for line in child.stdout:
                self._read(line)
            code = child.wait()
        if self._stopping:
            return
        if not self.is_ready:
            self.early_exit_code = code if code > 0 else 1
            on_early_exit()
        else:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            sys.stderr.write(
                f"kvxray demo: the engine ended ({how}); the page stays up. Start it again, in another terminal, "
                f"with: {shlex.join(typed(self.command))}\n"
            )

    def _read(self, line: bytes) -> None:
        with contextlib.suppress(ValueError):
            told: Any = json.loads(line)
            self.is_ready = self.is_ready or (isinstance(told, dict) and told.get("ready") is True)


def typed(command: list[str]) -> list[str]:
    """One of our own command lines as a person would type it: with the `kvxray` that this process was started by."""
    program = sys.argv[0]
    if Path(program).name != "kvxray" or "kvxray_backend.cli" not in command:
        return [word for word in command if word != "--until-stdin-closes"]
    words = command[command.index("kvxray_backend.cli") + 1 :]
    return [program, *(word for word in words if word != "--until-stdin-closes")]
