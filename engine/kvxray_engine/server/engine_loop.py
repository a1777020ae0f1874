"""The thread that steps an engine: at full speed while there is work, asleep while there is none.

What each step brought goes to the listeners, in this thread and before the next step. Nothing here knows HTTP.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from kvxray_engine.engine import LLMEngine, RequestOutput

IDLE_S = 0.1
"""Longest sleep without work: a publisher that lost messages asks the engine for a dump without waking it."""

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Whoever wants to know what steps bring."""

    def take(self, outputs: Sequence[RequestOutput]) -> None:
        """Called after each step by the thread that steps, so it must be quick and may read the engine."""
        ...


class EngineLoop:
    """Steps one engine. When a step raises, the loop ends for good: `alive` is False and `on_failure` was called."""

    def __init__(
        self, engine: LLMEngine, listeners: Sequence[Listener], on_failure: Callable[[], None] = lambda: None
    ) -> None:
        self.engine = engine
        self._listeners = tuple(listeners)
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvxray-engine", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Waits for the step under way and ends the thread; requests that still run stay as they are."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def step(self) -> None:
        """One step and its listeners; for callers without a thread."""
        outputs = self.engine.step()
        for listener in self._listeners:
            listener.take(outputs)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.step()
                # Nothing computed although there is work: whoever waits fits only once something else has changed.
                if not self.engine.computed_tokens:
                    self.engine.inbox.wait(IDLE_S)
        except Exception:
            logger.exception("the engine's loop failed at step %d and stands still", self.engine.step_count)
            self._on_failure()
