"""Keeps apart which answer belongs to which replay request: answers come in order, and a late one must not pass for the
newest.
"""

from __future__ import annotations

from typing import Final, Protocol

ASK_AGAIN_NS: Final = 1_000_000_000


class Asker(Protocol):
    """What is asked of a publisher; answers come back as received items."""

    def request_snapshot(self) -> None: ...

    def request_replay(self, first: int, last: int) -> None: ...


class ReplayDesk:
    """Asks for messages again. `newest`: the range last asked for, None when nothing is awaited."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.newest: tuple[int, int] | None = None
        self._asked_ns = 0
        self._answers_due = 0

    def ask(self, first: int, last: int, now_ns: int) -> None:
        self._asker.request_replay(first, last)
        self.newest, self._asked_ns = (first, last), now_ns
        self._answers_due += 1

    def may_ask(self, now_ns: int) -> bool:
        """Whether nothing is awaited, or the answer is so late that it was lost."""
        return self.newest is None or now_ns - self._asked_ns >= ASK_AGAIN_NS

    def ended(self) -> tuple[int, int] | None:
        """One answer is complete: the range it was for when it answers the newest request, else None."""
        self._answers_due = max(0, self._answers_due - 1)
        if self._answers_due or self.newest is None:
            return None
        answered, self.newest = self.newest, None
        return answered

    def drop(self) -> None:
        """What was asked for is not wanted any more; its answer, when it comes, is nobody's."""
        self.newest = None
