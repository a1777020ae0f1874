"""A thread that follows the events of one engine: what comes is taken in short turns under the engine's lock.

It survives what it does not expect: it says so in the log, lets go of what it holds and joins anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from kvxray_backend.observed.listener import Listener

AFTER_A_FAULT_S: Final = 1.0
WAIT_S: Final = 0.5
"""What comes is taken at once; only what time alone brings waits for so long."""

logger = logging.getLogger(__name__)


class EventThread:
    """Runs from `start` to `close`."""

    def __init__(self, engine: str, listen: Callable[[], Listener]) -> None:
        """listen: makes a connection; called in the thread, again after each fault."""
        self._engine = engine
        self._listen = listen
        self._listener: Listener | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kvxray-observe-{engine}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        listener = self._listener
        if listener is not None:
            listener.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow(self._listen())
            except Exception:
                logger.exception("The engine %s stumbled; it is joined anew.", self._engine)
                self._stopping.wait(AFTER_A_FAULT_S)

    def _follow(self, listener: Listener) -> None:
        self._listener = listener
        try:
            while not self._stopping.is_set():
                listener.turn(WAIT_S)
        finally:
            self._listener = None
            listener.close()
