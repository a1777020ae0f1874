"""What any process that runs an engine needs around it: signals to end by, threads to compute with, a line that says it
is ready.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kvxray_engine.stream.publisher import Publisher


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the handlers from before come back afterwards."""
    stopping = threading.Event()
    before = {sig: signal.signal(sig, lambda *_: stopping.set()) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


def default_threads(cores: int) -> int:
    """Torch threads that leave a core to the page; more than four gain a model this small nothing."""
    return max(1, min(4, cores - 1))


def loopback_endpoint(port: int) -> str:
    """Where a publisher binds; port 0 = any free one."""
    return f"tcp://127.0.0.1:{port or '*'}"


def say_ready(publisher: Publisher, api_address: str, model: str) -> None:
    """One JSON line on standard output: what runs, and where to reach it."""
    addresses = {"events": publisher.events_address, "replay": publisher.replay_address, "api": api_address}
    sys.stdout.write(json.dumps({"ready": True, "model": model, **addresses}) + "\n")
    sys.stdout.flush()
