"""One thread with an event loop that reads the metrics of all watched engines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final

CLOSE_WAIT_S: Final = 5.0


class MetricsLoop:
    """Begins with the first that is run; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, reading: Coroutine[Any, Any, None]) -> Future[None]:
        """Until it ends, or the future is cancelled."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, name="kvxray-metrics", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(reading, self._loop)

    def close(self) -> None:
        """Cancels what runs; may begin again."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_WAIT_S)

    def _serve(self) -> None:
        loop = self._loop
        assert loop is not None, "the thread belongs to a loop"
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
