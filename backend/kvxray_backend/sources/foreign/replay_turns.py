"""How many publishers are asked for replay at once, over all sources: after an outage of ours everyone has a gap, and
an answer may be the whole of a publisher's buffer.
"""

from __future__ import annotations

import threading
from typing import Final

MAX_AT_ONCE: Final = 8


class ReplayTurns:
    """From any thread. Nobody waits: whoever gets no turn asks again later."""

    def __init__(self, max_at_once: int = MAX_AT_ONCE) -> None:
        self._free = threading.BoundedSemaphore(max_at_once)

    def take(self) -> bool:
        return self._free.acquire(blocking=False)

    def give_back(self) -> None:
        """Of a turn taken, once."""
        self._free.release()
