"""The product as a user runs it: the demo in processes of its own, on free ports, its data in a folder of the test."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil

T = TypeVar("T")
START_S = 180.0
WAIT_S = 90.0


class DemoRig:
    """Starts and ends the demo, its engine alone, or the backend alone; `close` leaves no process behind.

    All of them use the same engine ports and the same database, so that each can be stopped and come back.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.url = ""
        events, replay, api = free_ports(3)
        self.engine_ports = ["--events-port", str(events), "--replay-port", str(replay), "--api-port", str(api)]
        self.source = f"demo=tcp://127.0.0.1:{events},tcp://127.0.0.1:{replay},http://127.0.0.1:{api}"
        self.options = ["--model", "tiny", "--seed", "7", *options]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_demo(self) -> None:
        """Engine, backend and page."""
        self._start("demo", "--port", "0", *self.engine_ports, *self.options)
        self._find_address()

    def start_engine(self) -> None:
        """The engine alone, on the ports the demo's engine had."""
        self._start("demo", "--engine-only", *self.engine_ports, *self.options)

    def start_backend(self) -> None:
        """Backend and page without an engine."""
        self._start("serve", "--port", "0", "--source", self.source)
        self._find_address()

    def start_alone(self) -> None:
        """Backend and page that follow nobody yet."""
        self._start("serve", "--port", "0")
        self._find_address()

    def start_replay(self, file: Path) -> None:
        """Backend and page on a file of history alone."""
        self._start("replay", str(file), "--port", "0")
        self._find_address()

    def export(self, file: Path, *options: str) -> None:
        """The history into a file, while the backend goes on; all of it unless the options say otherwise."""
        command = [sys.executable, "-m", "kvxray_backend.cli", "storage", "export", str(file), *options]
        environment = os.environ | {"KVXRAY_DATA_DIR": str(self.folder / "data")}
        subprocess.run(command, check=True, env=environment, timeout=START_S)

    def kill_engine(self) -> None:
        """As a crash would."""
        self._engine().kill()

    def freeze_engine(self) -> None:
        """Let nothing happen any more, so that two looks see the same."""
        self._engine().suspend()

    def thaw_engine(self) -> None:
        self._engine().resume()

    def stop(self) -> None:
        """Ask what was started last to end, and see that it does."""
        process = self.processes.pop()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0, self.log()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a route."""
        response = httpx2.get(f"{self.url}/api/{path}", params=query, timeout=WAIT_S)
        response.raise_for_status()
        return response.json()

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        for process in reversed(self.processes):
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            for member in family:
                member.kill()
            process.wait(WAIT_S)

    def _start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "kvxray_backend.cli", *arguments]
        environment = os.environ | {"KVXRAY_DATA_DIR": str(self.folder / "data")}
        with self._log_path().open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def _log_path(self) -> Path:
        return self.folder / f"{len(list(self.folder.glob('*.log')))}.log"

    def _find_address(self) -> None:
        newest = max(self.folder.glob("*.log"))
        found = until(lambda: re.search(r"open (http://\S+) in a browser", newest.read_text()), START_S)
        self.url = found.group(1)
        until(lambda: self._answers(), START_S)

    def _answers(self) -> bool:
        assert self.processes[-1].poll() is None, self.log()
        try:
            return bool(self.get("health"))
        except httpx2.HTTPError:
            return False

    def _engine(self) -> psutil.Process:
        children = [child for process in self.processes for child in psutil.Process(process.pid).children()]
        return next(child for child in children if "--engine-only" in child.cmdline())


def free_ports(number: int) -> list[int]:
    """Loopback ports that nothing used a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def until(condition: Callable[[], T], timeout_s: float = WAIT_S) -> T:
    """What the condition says once it says something true."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)
    return found
