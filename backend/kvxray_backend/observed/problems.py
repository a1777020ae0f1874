"""What stands in the way of watching engines that somebody asked for: a sentence each, for as long as it does."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

MAX_PROBLEMS: Final = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """`where`: a file, a host's name, or an engine's. `since_ns`: wall clock."""

    where: str
    sentence: str
    since_ns: int


class Problems:
    """Safe to call from any thread. One sentence a place: a new one takes the place of the old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, Problem] = {}

    @property
    def all(self) -> tuple[Problem, ...]:
        """The oldest first, at most a hundred."""
        with self._lock:
            return tuple(self._of.values())[:MAX_PROBLEMS]

    def set(self, found: dict[str, str], now_ns: int) -> None:
        """All that stand in the way now, by place; one that goes on keeps its time."""
        with self._lock:
            kept = {}
            for where, sentence in found.items():
                before = self._of.get(where)
                goes_on = before is not None and before.sentence == sentence
                kept[where] = before if before is not None and goes_on else Problem(where, sentence, now_ns)
            self._of = kept
