"""Mutes as they stand: kept in the log's database, known here without asking it. Only where no Alertmanager is set."""

from __future__ import annotations

import threading
import uuid
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_storage.database import Database
from kvxray_storage.mutes import Mute, forget_mute, keep_mute, mutes

from kvxray_backend.alert_types import MuteView, QuietView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.moments import iso_time

MAX_MUTES: Final = 200


class MuteDesk:
    """Safe to call from any thread."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._mutes: list[Mute] = []

    def read(self) -> None:
        """What was muted before a restart. Raises what the database raises."""
        found = mutes(self._database, self._clock.wall_ns())
        with self._lock:
            self._mutes = found

    def add(self, rule: str, engine: str, until_ns: int, note: str) -> Mute:
        """Durable when this returns. Raises UserError when there are too many."""
        now_ns = self._clock.wall_ns()
        if len(self.standing()) >= MAX_MUTES:
            raise UserError(f"There are {MAX_MUTES} mutes already; end some first.")
        kept = keep_mute(self._database, Mute(uuid.uuid4().hex, rule, engine, until_ns, note, now_ns))
        with self._lock:
            self._mutes.insert(0, kept)
        return kept

    def end(self, mute_id: str) -> bool:
        """False when there is none of that id."""
        was_there = forget_mute(self._database, mute_id)
        with self._lock:
            self._mutes = [mute for mute in self._mutes if mute.id != mute_id]
        return was_there

    def standing(self) -> list[Mute]:
        """Those that are not over, the newest first."""
        now_ns = self._clock.wall_ns()
        with self._lock:
            self._mutes = [mute for mute in self._mutes if now_ns < mute.until_ns]
            return list(self._mutes)

    def covering(self, alert: Alert) -> Mute | None:
        """The one that lasts longest."""
        now_ns = self._clock.wall_ns()
        with self._lock:
            found = [mute for mute in self._mutes if mute.covers(alert.rule, alert.engine, now_ns)]
        return max(found, key=lambda mute: mute.until_ns, default=None)

    def quiet(self, alert: Alert) -> QuietView | None:
        mute = self.covering(alert)
        if mute is None:
            return None
        return QuietView(by="A mute", until=iso_time(mute.until_ns), note=mute.note, link="", mute_id=mute.id)


def mute_view(mute: Mute) -> MuteView:
    return MuteView(
        id=mute.id,
        rule=mute.rule,
        engine=mute.engine,
        until=iso_time(mute.until_ns),
        note=mute.note,
        created=iso_time(mute.created_ns),
    )
