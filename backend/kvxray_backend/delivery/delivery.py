"""Alerts on their way out: what the watch hands in is told to each target, by a thread of its own, until it is told."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog
from kvxray_storage.outbox import Notification, NotificationKind
from sqlalchemy.exc import SQLAlchemyError

from kvxray_backend.alert_types import MuteView, QuietView, TargetView, ToldView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.delivery.alertmanager import TOLD_AGAIN_S
from kvxray_backend.delivery.keeping import Keeping
from kvxray_backend.delivery.lane import MAX_WAITING
from kvxray_backend.delivery.lane_loop import LaneLoop
from kvxray_backend.delivery.lanes import Lanes
from kvxray_backend.delivery.message import MessageMaker
from kvxray_backend.delivery.mute_desk import MuteDesk, mute_view
from kvxray_backend.delivery.notice import rows_for
from kvxray_backend.delivery.posting import THREAD_NAME, TIMEOUT_S, target_http
from kvxray_backend.delivery.senders import AlertmanagerSender, Sender, WebhookSender
from kvxray_backend.delivery.silence_watch import LOOK_S, SilenceWatch
from kvxray_backend.delivery.stored_notices import read_notices
from kvxray_backend.delivery.target import Target, targets_of
from kvxray_backend.delivery.told import told_views
from kvxray_backend.settings import Settings

CLOSE_WAIT_S: Final = 2.0

logger = logging.getLogger(__name__)


class Delivery:
    """`start`, and in the end `close`, before the log closes. Safe to call from any thread; nothing here waits for a
    target. `can_mute`: no Alertmanager is set, whose silences would be kept twice.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        log: EventLog,
        clock: Clock,
        link: Callable[[Alert], str],
        rule_of: Callable[[str], Rule | None] = RULES.get,
        *,
        timeout_s: float = TIMEOUT_S,
        told_again_s: float = TOLD_AGAIN_S,
        look_s: float = LOOK_S,
    ) -> None:
        """link: to the moment, whole. Raises UserError for a template that cannot be used."""
        self.can_mute = not settings.alertmanagers
        self.muting = MuteDesk(database, clock)
        self._targets = targets_of(settings)
        self._database = database
        self._log = log
        self._clock = clock
        self._messages = MessageMaker(settings, link, rule_of)
        self._senders = {target.name: _sender(target, clock, timeout_s) for target in self._targets}
        self._lanes = Lanes(self._targets)
        self._silences = SilenceWatch(self._targets, timeout_s)
        self._told_again_s = told_again_s
        self._look_s = look_s
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loops: list[LaneLoop] = []
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        """Reads what is due, and begins to tell it."""
        self._read_stored()
        if self._targets:
            self._thread = threading.Thread(target=self._serve, name=THREAD_NAME, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """What is under way may end; the rest stays due."""
        loop, stop = self._loop, self._stop
        if self._thread is None:
            return
        if loop is not None and stop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
                self._wake()
        self._thread.join(2 * CLOSE_WAIT_S)
        self._thread = None

    def rows_for(self, alert: Alert, kind: NotificationKind) -> list[Notification]:
        """For the transaction that stores the alert: `outbox.store_notifications`."""
        return rows_for(self._targets, alert, kind, self._clock.wall_ns())

    def take(self, alert: Alert, kind: NotificationKind, stored: Future[None]) -> None:
        """Told once `stored` is done, or a few seconds later where the database refuses."""
        rows = self.rows_for(alert, kind)
        full = self._lanes.take(alert, kind, rows, self._clock.wall_ns())
        if full:
            logger.warning("More than %d notifications wait for %s.", MAX_WAITING, ", ".join(full))
        stored.add_done_callback(lambda _: self._stored(rows))

    def firing(self, alerts: Sequence[Alert]) -> None:
        """All that fire now: an Alertmanager is told of them again and again."""
        self._lanes.firing(alerts)

    def told_of(self, alert_id: str) -> list[ToldView]:
        return self.told([alert_id])[alert_id]

    def told(self, alert_ids: Sequence[str]) -> dict[str, list[ToldView]]:
        """What each target was, or is to be, told of them."""
        return told_views(self._database, alert_ids, self._lanes.rows_of(alert_ids))

    def targets(self) -> list[TargetView]:
        return self._lanes.views(self._clock.wall_ns())

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """By target: notifications delivered, tries that failed, since the server started."""
        return self._lanes.counts()

    def quiet(self, alert: Alert) -> QuietView | None:
        """Why nobody is told of it now."""
        return self.muting.quiet(alert) if self.can_mute else self._silences.quiet(alert)

    def mutes(self) -> list[MuteView]:
        return [mute_view(mute) for mute in self.muting.standing()] if self.can_mute else []

    def check_integrity(self) -> None:
        self._lanes.check_integrity()

    def _read_stored(self) -> None:
        try:
            self.muting.read()
            for target in self._targets:
                notices, lost, has_more = read_notices(self._database, [target.name], MAX_WAITING)
                self._lanes.put_stored(target.name, notices, has_more=has_more)
                self._lanes.give_up(target.name, lost)
        except SQLAlchemyError as error:
            logger.error("What is to be told of alerts cannot be read: %s", error)

    def _stored(self, rows: Sequence[Notification]) -> None:
        """Also where it failed: the alarm that nothing can be stored must get out too."""
        self._lanes.stored(rows)
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for one in self._loops:
            one.wake.set()

    def _is_muted(self, alert: Alert) -> bool:
        return self.can_mute and self.muting.covering(alert) is not None

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._stop = stop = asyncio.Event()
        self._loops = [self._lane_loop(target) for target in self._targets]
        self._loop = asyncio.get_running_loop()
        async with target_http() as http:
            tasks = [asyncio.create_task(one.run(http, stop)) for one in self._loops]
            if not self.can_mute:
                tasks.append(asyncio.create_task(self._watch_silences(stop)))
            await stop.wait()
            self._wake()
            _, late = await asyncio.wait(tasks, timeout=CLOSE_WAIT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _lane_loop(self, target: Target) -> LaneLoop:
        return LaneLoop(
            target,
            self._senders[target.name],
            self._lanes,
            self._messages,
            Keeping(self._log, self._lanes, target.name),
            self._database,
            self._clock,
            self._is_muted,
            self._told_again_s,
        )

    async def _watch_silences(self, stop: asyncio.Event) -> None:
        async with target_http() as http:
            while not stop.is_set():
                await self._silences.look(http, self._clock.wall_ns())
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), self._look_s)


def _sender(target: Target, clock: Clock, timeout_s: float) -> Sender:
    if target.kind == "alertmanager":
        return AlertmanagerSender(target, clock, timeout_s)
    return WebhookSender(target, clock, timeout_s)
