"""What others want written: short transactions that the writer runs between its commits, since there is one writer.

While commits go on, errands get half of the writer's time, so that what makes room keeps up with what takes it. Each
delays an acknowledgement, so whoever sends one keeps it short. Its failure is its sender's to deal with.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import sqlalchemy as sa

Write = Callable[[sa.Connection], None]


class NoWriter(Exception):
    """The log closed, or its thread stopped, before the errand was run."""


@dataclass(frozen=True, slots=True, eq=False)
class Errand:
    """`write` runs inside one transaction; `done` is set when that is committed, or with what it raised."""

    write: Write
    done: Future[None] = field(default_factory=Future)


class Errands:
    """Errands in the order they came. `changed`: the condition that the writer sleeps on."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._waiting: deque[Errand] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, write: Write) -> Future[None]:
        errand = Errand(write)
        with self._changed:
            if self._closed:
                errand.done.set_exception(NoWriter())
            else:
                self._waiting.append(errand)
                self._changed.notify_all()
        return errand.done

    def run(self, writing: Callable[[], AbstractContextManager[sa.Connection]], seconds: float) -> None:
        """The writer's: the oldest, and more of them for about so long. Raises nothing."""
        until = time.monotonic() + seconds
        while self._run_one(writing) and time.monotonic() < until:
            pass

    def _run_one(self, writing: Callable[[], AbstractContextManager[sa.Connection]]) -> bool:
        with self._changed:
            errand = self._waiting.popleft() if self._waiting else None
        if errand is None:
            return False
        try:
            with writing() as connection:
                errand.write(connection)
        except Exception as error:
            errand.done.set_exception(error)
        else:
            errand.done.set_result(None)
        return True

    def close(self) -> None:
        """Nobody runs any more: those that wait are told."""
        with self._changed:
            self._closed = True
            left, self._waiting = list(self._waiting), deque()
        for errand in left:
            errand.done.set_exception(NoWriter())
