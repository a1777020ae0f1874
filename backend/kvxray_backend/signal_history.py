"""The past of every engine's metrics: the last hour as it was read, what is older by the minute in the event log.

Fed by whoever reads metrics, with each page; a back-fill feeds it in the same way, in order of time. What lies before
the newest minute that is stored was told before, and is left out: no time counts twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Final

import sqlalchemy as sa
from kvxray_storage.database import Database
from kvxray_storage.epoch_folds import REFUSALS
from kvxray_storage.event_log import EventLog
from kvxray_storage.refusals import once, why_not_written
from kvxray_storage.signal_minutes import (
    MINUTE_S,
    SignalMinute,
    delete_minutes,
    newest_minute,
    read_minutes,
    store_minutes,
)

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.minute import Stretch, latest
from kvxray_backend.metrics.minute_packing import pack, unpack
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

RECENT_S: Final = 3_600.0
MAX_RECENT: Final = 720
MAX_WAITING: Final = 20_000
"""Minutes that wait to be stored; beyond them the oldest are dropped, and counted."""
MAX_READ: Final = 45_000
"""Minutes of an engine that one question reads: a month."""
WRITE_AT_ONCE: Final = 500
CLOSE_WAIT_S: Final = 2.0
PRUNE_EVERY_S: Final = 300
"""Often enough that the oldest few each time are more than 256 engines add meanwhile."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timed:
    """What was told in the `seconds` up to `at_s`."""

    at_s: float
    seconds: float
    stretch: Stretch


@dataclass(slots=True)
class _Engine:
    """`minute`: the one that is being filled, and what is in it. `stored_s`: the newest that is stored."""

    recent: deque[Timed] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    minute_s: int | None = None
    minute: Stretch = field(default_factory=Stretch)
    stored_s: int | None = None
    last_s: float | None = None
    book: MetricsBook | None = None


class SignalHistory:
    """Safe to call from any thread; `take` neither waits nor reads the database, but for the first page of an engine.

    max_age_s: how long minutes are kept; None: for ever.
    """

    def __init__(self, database: Database, log: EventLog, max_age_s: int | None = None) -> None:
        self._database, self._log, self._max_age_s = database, log, max_age_s
        self._lock = threading.Lock()
        self._engines: dict[str, _Engine] = {}
        self._waiting: deque[SignalMinute] = deque()
        self._writing: tuple[list[SignalMinute], Future[None]] | None = None
        self._pruned_s = 0.0
        self.num_dropped = 0

    def take(self, name: str, at_s: float, watch: MetricsWatch) -> None:
        """Of the page that the watch took last. Call it where nothing else feeds the watch meanwhile."""
        stretch = latest(watch.book)
        engine = self._engine(name, at_s)
        if engine.book is not watch.book and engine.last_s is not None and at_s <= engine.last_s:
            self._begin_anew(name, engine, at_s)
        with self._lock:
            engine.book = watch.book
            seconds = at_s - engine.last_s if engine.last_s is not None else 0.0
            if engine.last_s is not None and seconds <= 0:
                return
            engine.last_s = at_s
            engine.recent.append(Timed(at_s, seconds, stretch))
            self._fill(name, engine, at_s, stretch)
        self._write()

    def between(self, name: str, from_s: float, to_s: float, only: Collection[str] | None = None) -> list[Timed]:
        """In order of time. Of the last hour as it was read, where not much more is asked for; else by the minute.
        only: these signals at least are wanted; None: all.
        """
        fine = self._finely(name, from_s, to_s) if to_s - from_s <= 2 * RECENT_S else []
        # The minute in which the fine begins may lie before it in part: no rate suffers from what is told twice.
        fine_from_s = fine[0].at_s - fine[0].seconds if fine else to_s
        coarse = self._by_minute(name, from_s, fine_from_s, only) if fine_from_s > from_s else []
        return [*coarse, *fine]

    def newer(self, name: str, than_s: float) -> list[Timed]:
        """As it was read, in order of time, of the last hour; reads no database."""
        with self._lock:
            engine = self._engines.get(name)
            recent = engine.recent if engine is not None else ()
            return [*takewhile(lambda one: one.at_s > than_s, reversed(recent))][::-1]

    def is_known(self, name: str) -> bool:
        """Whether anything is told of it, now or in the log."""
        with self._lock:
            known = name in self._engines
        return known or newest_minute(self._database, name) is not None

    def close(self) -> None:
        """Hands over what waits; the minute that is not over goes as it is, and is not gone on with after a restart."""
        with self._lock:
            for name, engine in self._engines.items():
                self._end_minute(name, engine)
        for _ in range(2 + len(self._waiting) // WRITE_AT_ONCE):
            self._write()
            if self._writing is None:
                return
            try:
                self._writing[1].result(CLOSE_WAIT_S)
            except Exception as error:
                logger.warning("what metrics told last could not be stored: %s", self._why_not(error))
                return

    def _why_not(self, error: Exception) -> str:
        if isinstance(error, REFUSALS):
            return once(why_not_written(self._database.place, error))
        return str(error) or type(error).__name__

    def _begin_anew(self, name: str, engine: _Engine, at_s: float) -> None:
        """The clock was set back, and the engine is read anew: what lies ahead of it is no past."""
        stored_s = self._stored_s(name, at_s)
        with self._lock:
            engine.recent.clear()
            engine.minute_s, engine.minute = None, Stretch()
            engine.stored_s, engine.last_s = stored_s, None

    def _stored_s(self, name: str, at_s: float) -> int | None:
        """The newest minute that is stored, but for those that lie ahead of all clocks: one was set back."""
        try:
            return newest_minute(self._database, name, int(max(at_s, time.time())) + MINUTE_S)
        except sa.exc.SQLAlchemyError as error:
            logger.warning("it is not known what is stored of the metrics of %s: %s", name, error)
            return None

    def _engine(self, name: str, at_s: float) -> _Engine:
        with self._lock:
            known = self._engines.get(name)
        if known is not None:
            return known
        stored_s = self._stored_s(name, at_s)
        with self._lock:
            return self._engines.setdefault(name, _Engine(stored_s=stored_s))

    def _fill(self, name: str, engine: _Engine, at_s: float, stretch: Stretch) -> None:
        minute_s = int(at_s) // MINUTE_S * MINUTE_S
        if engine.stored_s is not None and minute_s <= engine.stored_s:
            return
        if engine.minute_s is not None and minute_s != engine.minute_s:
            self._end_minute(name, engine)
        engine.minute_s = minute_s
        engine.minute.add(stretch)

    def _end_minute(self, name: str, engine: _Engine) -> None:
        if engine.minute_s is not None and engine.minute.told:
            self._waiting.append(SignalMinute(name, engine.minute_s, pack(engine.minute)))
            engine.stored_s = engine.minute_s
        engine.minute_s, engine.minute = None, Stretch()
        self._bound()

    def _bound(self) -> None:
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self.num_dropped += 1

    def _write(self) -> None:
        """One errand at a time; what one could not store is tried again with the next."""
        with self._lock:
            if self._writing is not None:
                minutes, done = self._writing
                if not done.done():
                    return
                if done.exception() is not None:
                    self._waiting.extendleft(reversed(minutes))
                    self._bound()
                self._writing = None
            if not self._waiting:
                return
            some = [self._waiting.popleft() for _ in range(min(WRITE_AT_ONCE, len(self._waiting)))]
            self._writing = some, self._log.errand(partial(store_minutes, minutes=some))
            self._prune(some[-1].t_s)

    def _prune(self, now_s: int) -> None:
        if self._max_age_s is None or now_s - self._pruned_s < PRUNE_EVERY_S:
            return
        self._pruned_s = now_s
        before_s = now_s - self._max_age_s
        self._log.errand(lambda connection: None if delete_minutes(connection, before_s) else None)

    def _finely(self, name: str, from_s: float, to_s: float) -> list[Timed]:
        with self._lock:
            engine = self._engines.get(name)
            recent = list(engine.recent) if engine is not None else []
        since_s = max(from_s, recent[-1].at_s - RECENT_S) if recent else from_s
        return [one for one in recent if since_s < one.at_s <= to_s]

    def _by_minute(self, name: str, from_s: float, to_s: float, only: Collection[str] | None) -> list[Timed]:
        first_s = int(from_s) // MINUTE_S * MINUTE_S
        stored = read_minutes(self._database, name, first_s, int(to_s) + 1, MAX_READ)
        told = {one.t_s: one.packed for one in stored}
        with self._lock:
            writing = self._writing[0] if self._writing is not None else []
            for one in (*writing, *self._waiting):
                if one.source == name and first_s <= one.t_s <= to_s:
                    told.setdefault(one.t_s, one.packed)
            engine = self._engines.get(name)
            if engine is not None and engine.minute_s is not None and first_s <= engine.minute_s <= to_s:
                told[engine.minute_s] = pack(engine.minute)
        return [Timed(t_s + MINUTE_S, MINUTE_S, unpack(told[t_s], only)) for t_s in sorted(told)]
