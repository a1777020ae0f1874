"""Starts and ends the real thing for browser tests: `kvxray demo`, its engine alone, `kvxray serve`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil


class WholeDemo:
    """One data folder and one set of ports; processes come and go."""

    def __init__(self, folder: Path) -> None:
        self.page_port, self.events_port, self.replay_port, self.api_port = free_ports(4)
        self.url = f"http://127.0.0.1:{self.page_port}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KVXRAY_")}
        self.env = clean | {"KVXRAY_DATA_DIR": str(folder)}
        self._running: list[subprocess.Popen[bytes]] = []

    def start_demo(self, *options: str) -> subprocess.Popen[bytes]:
        """Engine, backend and page; returns once a first event has come."""
        demo = self._start("demo", "--model", "tiny", "--port", str(self.page_port), *self._engine_ports(), *options)
        self.wait(lambda: self.source()["state"] == "connected" and self.get("/api/state")["seq"])
        return demo

    def start_engine(self) -> subprocess.Popen[bytes]:
        return self._start("demo", "--engine-only", "--model", "tiny", *self._engine_ports())

    def start_serve(self) -> subprocess.Popen[bytes]:
        """The backend alone, following the demo's engine, should there be one."""
        events, replay = f"tcp://127.0.0.1:{self.events_port}", f"tcp://127.0.0.1:{self.replay_port}"
        serve = self._start("serve", "--port", str(self.page_port), "--source", f"demo={events},{replay}")
        self.wait(lambda: self.get("/api/health"))
        return serve

    def kill_engine_of(self, demo: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the engine, the demo's child."""
        (engine,) = psutil.Process(demo.pid).children()
        engine.send_signal(signal.SIGKILL)

    def get(self, path: str) -> Any:
        """The JSON of an API route. Raises for anything but 200."""
        answer = httpx2.get(self.url + path, timeout=10)
        answer.raise_for_status()
        return answer.json()

    def source(self) -> Any:
        (source,) = self.get("/api/sources")["sources"]
        return source

    def wait(self, holds: Any, within_s: float = 40.0) -> None:
        """Until `holds()` is true; what it raises meanwhile counts as not yet."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                if holds():
                    return
            except (httpx2.HTTPError, KeyError, ValueError):
                pass
            assert all(one.poll() is None for one in self._running), "a process ended while it was waited for"
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.1)

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM, and the exit code."""
        self._running.remove(process)
        process.terminate()
        return process.wait(30)

    def stop_all(self) -> None:
        for process in list(self._running):
            self.stop(process)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", "kvxray_backend.cli", *arguments], env=self.env)
        self._running.append(process)
        return process

    def _engine_ports(self) -> list[str]:
        return [
            "--events-port", str(self.events_port), "--replay-port", str(self.replay_port),
            "--api-port", str(self.api_port),
        ]  # fmt: skip


@contextmanager
def whole_demo(folder: Path) -> Iterator[WholeDemo]:
    demo = WholeDemo(folder)
    try:
        yield demo
    finally:
        demo.stop_all()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
