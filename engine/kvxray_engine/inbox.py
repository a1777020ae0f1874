"""What other threads want of the engine: requests and aborts, in the order and at the times they came.

The one place where threads meet in the engine; everything behind it runs in the engine's thread alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_engine.request import FinishReason, NewRequest


@dataclass(frozen=True, slots=True)
class Entry:
    """A request, or the id of one to end, and the wall ns at which it came."""

    what: NewRequest | str
    came_ns: int
    reason: FinishReason = FinishReason.abort  # why to end it


class Inbox:
    """Invariant: an id is known from its arrival until the engine says that it ended; aborts of others are ignored."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: list[Entry] = []
        self._known_ids: set[str] = set()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request: NewRequest) -> None:
        """Raises UserError when the id belongs to a request that has not ended."""
        with self._changed:
            if request.request_id in self._known_ids:
                raise UserError(f"The request id {request.request_id} is in use: choose another.")
            self._known_ids.add(request.request_id)
            self._put(request)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.abort) -> None:
        with self._changed:
            if request_id in self._known_ids:
                self._put(request_id, reason)

    def knows(self, request_id: str) -> bool:
        """Whether a request of that id has come and not ended."""
        with self._changed:
            return request_id in self._known_ids

    def take(self) -> list[Entry]:
        """All entries, oldest first."""
        with self._changed:
            entries, self._entries = self._entries, []
            return entries

    def forget(self, request_id: str) -> None:
        """The request ended: its id may be used again."""
        with self._changed:
            self._known_ids.discard(request_id)

    def wait(self, timeout_s: float) -> bool:
        """Blocks until there is an entry, at most `timeout_s`; True when there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._entries), timeout_s)

    def _put(self, what: NewRequest | str, reason: FinishReason = FinishReason.abort) -> None:
        self._entries.append(Entry(what, self._clock.wall_ns(), reason))
        self._changed.notify_all()
