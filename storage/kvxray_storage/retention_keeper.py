"""The thread that keeps a database within its limits while events come in. It reads and decides; the writer deletes,
between its commits, what it is told to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage import models, pruning
from kvxray_storage.database import Database
from kvxray_storage.epoch_folds import REFUSALS
from kvxray_storage.errands import NoWriter, Write
from kvxray_storage.event_log import EventLog
from kvxray_storage.pruner import Pruner
from kvxray_storage.refusals import why_not_written
from kvxray_storage.retention import Limits, to_free
from kvxray_storage.retention_plan import Plan, make_plan
from kvxray_storage.room import Asked
from kvxray_storage.storage_size import measure

LOOK_AT_AGE_S: Final = 60.0
LONGEST_WAIT_S: Final = 5.0
"""Unless the writer wakes it, which it does when room becomes short."""
MOST_ROUNDS: Final = 8
AFTER_A_FAULT_S: Final = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """What everyone keeps, and by name what some sources do; None: as everyone. What the database says of sources that
    are not named here (imported ones, say) stays.
    """

    everyone: Limits
    sources: Mapping[str, Limits | None]


class RetentionKeeper(threading.Thread):
    """From `start` to `close`; close it after the log, which needs room for its last commits, or it goes on without."""

    def __init__(
        self, database: Database, log: EventLog, retention: Retention, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        super().__init__(name="kvxray-retention", daemon=True)
        self._database = database
        self._log = log
        self._retention = retention
        self._wall_ns = wall_ns
        self._closing, self._woken = threading.Event(), threading.Event()
        self._aged_at = -LOOK_AT_AGE_S
        self._pruner = Pruner(database, self._run_errands, lambda key: key in log.followed(), log.give_up_before)

    def start(self) -> None:
        self._log.room.guard(self._retention.everyone.max_bytes, self._woken.set)
        super().start()

    def close(self) -> None:
        self._closing.set()
        self._woken.set()
        if self.is_alive():
            self.join(timeout=10)

    def run(self) -> None:
        try:
            wait_s = 0.0
            while not self._closing.is_set():
                self._woken.wait(wait_s)
                self._woken.clear()
                wait_s = self._look_or_say_why_not()
        finally:
            self._log.room.leave()

    def look(self) -> None:
        """Does what there is to do."""
        asked = self._log.room.begin_look()
        is_short = self._is_short(asked)
        if not is_short:
            self._log.room.answer(asked)
        if is_short or time.monotonic() - self._aged_at >= LOOK_AT_AGE_S:
            self._aged_at = time.monotonic()
            self._note_limits()
            nothing_goes = self._prune(asked.growth) and self._is_short(self._log.room.begin_look())
            self._log.room.answer(asked, nothing_goes=nothing_goes)

    def _look_or_say_why_not(self) -> float:
        """Returns how many seconds later to look again, unless it is woken."""
        asked = self._log.room.begin_look()
        try:
            self.look()
            return LONGEST_WAIT_S
        except NoWriter as error:
            logger.info("retention waits for the database: %s", error or "the log is closed")
        except REFUSALS as error:
            logger.info("retention waits: %s", why_not_written(self._database.place, error))
        except Exception:
            logger.exception("retention stumbled and tries again later")
        self._log.room.answer(asked, nothing_goes=True)
        return AFTER_A_FAULT_S

    def _is_short(self, asked: Asked) -> bool:
        max_bytes = self._retention.everyone.max_bytes
        used = measure(self._database).used
        self._log.room.note_measured(used, asked.written)
        return to_free(used, max_bytes, asked.growth) > 0

    def _prune(self, growth: int) -> bool:
        """Whether more must go, and nothing is left that can."""
        for _ in range(MOST_ROUNDS):
            plan = self._plan(growth)
            went = self._pruner.carry_out(plan)
            if not plan.excess or not went or self._closing.is_set():
                return bool(plan.excess) and not went
        return False

    def _plan(self, growth: int) -> Plan:
        everyone, followed = self._retention.everyone, self._log.followed()
        return make_plan(self._database, everyone, self._wall_ns(), followed, growth)

    def _note_limits(self) -> None:
        """What the settings say of single sources stands in the database too, for whoever prunes without them."""
        table, source, named = models.retention, models.source, list(self._retention.sources)
        query = sa.select(source.c.source_id, source.c.name, table.c.max_age_s, table.c.max_bytes, table.c.changed_ns)
        query = query.where(source.c.name.in_(named))
        with self._database.reading() as connection:
            rows = connection.execute(query.outerjoin_from(source, table)).all()
        for row in rows:
            wanted = self._retention.sources[row.name]
            stored = Limits(row.max_age_s, row.max_bytes) if row.changed_ns is not None else None
            if wanted != stored:
                self._keep_limits(row.source_id, wanted)

    def _keep_limits(self, source_id: int, limits: Limits | None) -> None:
        values: dict[str, Any] | None = None
        if limits is not None:
            values = {"max_age_s": limits.max_age_s, "max_bytes": limits.max_bytes, "changed_ns": self._wall_ns()}
        self._run_errands([partial(pruning.keep_limits, source_id=source_id, values=values)])

    def _run_errands(self, writes: Sequence[Write]) -> None:
        if self._closing.is_set():
            raise NoWriter
        for done in [self._log.errand(write) for write in writes]:
            done.result()
