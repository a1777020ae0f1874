"""Whether the database has room for a commit: what the writer and retention tell each other, so that a limit holds
however far apart their threads are, and not only as long as retention looks in time.

A transaction that would leave the database above the limit is taken back and told to retention, which makes room; the
writer runs its errands meanwhile, waits for its answer, and tries again. What comes in fills the bounded queue. Nobody
waits without end: where nothing is left that can go, where retention failed, ended, or does not answer, and when the
log must close, the writer goes on, over the limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Final

import sqlalchemy as sa

from kvxray_storage.database import Database
from kvxray_storage.errands import Errands
from kvxray_storage.refusals import WritesRefused
from kvxray_storage.retention import ceiling, full_at
from kvxray_storage.storage_size import measure, of_file

PATIENCE_S: Final = 30.0
"""Without an answer, or an errand, of retention."""

logger = logging.getLogger(__name__)
Writing = Callable[[], AbstractContextManager[sa.Connection]]


class NoRoom(WritesRefused):
    """The transaction would leave the database above its limit. `used`: bytes, with it."""

    def __init__(self, used: int) -> None:
        super().__init__("the database is as large as it may be, until retention has made room")
        self.used = used


@dataclass(frozen=True, slots=True)
class Asked:
    """What retention finds when it begins to look. `number`: of the newest question; `growth`: bytes that wait for
    room; `places`: how often a new place was stored at which history may begin; `written`: bytes, ever.
    """

    number: int
    growth: int
    places: int
    written: int


class Room:
    """Everything is read and written under `changed`, the condition of the log.

    SQLite is measured in each transaction, which costs microseconds. A server is not: there it counts what was written
    since retention measured.
    """

    def __init__(self, database: Database, changed: Condition) -> None:
        self._database = database
        self._changed = changed
        self._limit: int | None = None
        self._wake: Callable[[], None] = lambda: None
        self._asked = self._answered = self._given_up = 0
        self._growth = self._places = self._written = 0
        self._measured: int | None = None
        self._nothing_goes = self._is_over = False

    # Retention's.

    def guard(self, max_bytes: int | None, wake: Callable[[], None]) -> None:
        """From now on the writer keeps below `max_bytes` and calls `wake` when room becomes short."""
        with self._changed:
            self._limit, self._wake = max_bytes, wake

    def leave(self) -> None:
        """Nobody makes room any more."""
        self.guard(None, lambda: None)
        with self._changed:
            self._changed.notify_all()

    def begin_look(self) -> Asked:
        with self._changed:
            return Asked(self._asked, self._growth, self._places, self._written)

    def note_measured(self, used: int, written: int) -> None:
        """`used`: what was in use when so much had been written."""
        with self._changed:
            self._measured = used - written

    def answer(self, asked: Asked, *, nothing_goes: bool = False) -> None:
        """What was asked before that look is done; nothing_goes: though there is no room, nothing is left to go."""
        with self._changed:
            self._answered = max(self._answered, asked.number)
            self._nothing_goes = nothing_goes and asked.places == self._places
            self._changed.notify_all()

    # The writer's.

    @contextmanager
    def guarded(self, writing: Writing, num_bytes: int, *, is_place: bool) -> Iterator[sa.Connection]:
        """A transaction that holds only where it leaves the database below its limit; else raises NoRoom.

        num_bytes: about so many it adds (asked of servers). is_place: it stores one at which history may begin.
        """
        try:
            with writing() as connection:
                yield connection
                used = self._check(connection, num_bytes)
        except NoRoom as lacking:
            now = self._measured_now()
            self._ask(max(lacking.used - now, 0))
            raise
        self._settle(used, num_bytes, is_place=is_place)

    def wait(self, errands: Errands, writing: Writing, close_by: Callable[[], float | None]) -> None:
        """Until retention has answered what was asked last, running its errands meanwhile."""
        patience_ends = time.monotonic() + PATIENCE_S
        while True:
            with self._changed:
                if self._limit is None or self._answered >= self._asked:
                    return
                left_s = min(at for at in (patience_ends, close_by()) if at is not None) - time.monotonic()
                if left_s <= 0:
                    self._given_up = self._asked
                    return
                if not len(errands):
                    self._changed.wait(left_s)
                    continue
            errands.run(writing, 0.0)
            patience_ends = time.monotonic() + PATIENCE_S

    def _check(self, connection: sa.Connection, num_bytes: int) -> int | None:
        """Bytes in use with what the transaction holds; None: nobody asks, or it is not known."""
        limit = self._limit
        if limit is None:
            return None
        used = of_file(connection).used if self._database.url_scheme == "sqlite" else self._counted(num_bytes)
        with self._changed:
            if used > ceiling(limit) and self._can_wait():
                raise NoRoom(used)
            why = "nothing is left that could go" if self._nothing_goes else "retention does not answer"
            is_new, self._is_over = used > limit and not self._is_over, used > limit
        if is_new:
            logger.warning("the event log grows beyond its limit of %d bytes: %s", limit, why)
        return used

    def _can_wait(self) -> bool:
        return not self._nothing_goes and self._answered >= self._given_up

    def _settle(self, used: int | None, num_bytes: int, *, is_place: bool) -> None:
        """It is durable. Retention is woken before room is short."""
        with self._changed:
            self._written += num_bytes
            if is_place:
                self._places += 1
                self._nothing_goes = False
            is_short = used is not None and self._limit is not None and used > full_at(self._limit)
            if is_short and self._can_wait():
                self._wake()

    def _ask(self, growth: int) -> None:
        with self._changed:
            self._asked += 1
            self._growth = growth
            self._wake()
            self._changed.notify_all()

    def _measured_now(self) -> int:
        return measure(self._database).used if self._database.url_scheme == "sqlite" else self._counted(0)

    def _counted(self, num_bytes: int) -> int:
        """Of a server. Before it was measured it may be as full as can be."""
        with self._changed:
            measured = self._measured
            return (self._limit or 0) + num_bytes if measured is None else measured + self._written + num_bytes
