"""A thread that follows one engine of ours: sockets in, everything else in the follower.

The thread survives what it does not expect: it says so in the log, lets go of what it holds and joins anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kvxray_engine.stream.subscriber import Subscriber

from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.settings import SourceSpec
from kvxray_backend.sources.follower import Follower
from kvxray_backend.sources.replay_desk import Asker

WAIT_S: Final = 0.1
AFTER_A_FAULT_S: Final = 1.0

logger = logging.getLogger(__name__)


class NativeSource:
    """Follows `spec` from `start` to `close`."""

    def __init__(self, spec: SourceSpec, make_follower: Callable[[Asker], Follower], inspector: Inspector) -> None:
        """make_follower: called for each connection, in the thread. Raises `UserError` for an endpoint that makes no
        sense.
        """
        self._spec = spec
        self._make_follower = make_follower
        self._inspector = inspector
        self._subscriber = Subscriber(spec.events, spec.replay)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kvxray-source-{spec.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops the thread and closes the sockets."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._subscriber.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow(self._make_follower(self._subscriber))
            except Exception:
                logger.exception("The source %s stumbled; it is joined anew.", self._spec.name)
                self._stopping.wait(AFTER_A_FAULT_S)

    def _follow(self, follower: Follower) -> None:
        while not self._stopping.is_set():
            items = self._subscriber.receive(WAIT_S)
            now_ns = time.monotonic_ns()
            follower.receive(items, now_ns)
            follower.advance(now_ns)
            self._inspector.inspect(now_ns)
