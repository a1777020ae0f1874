"""Tells one target what waits for it, for as long as the server runs: one of these a target, so that one that hangs
holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import httpx2
from kvxray_engine.clock import Clock
from kvxray_storage.database import Database
from sqlalchemy.exc import SQLAlchemyError

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.alertmanager import TOLD_AGAIN_S
from kvxray_backend.delivery.keeping import Keeping
from kvxray_backend.delivery.lane import MAX_TOGETHER, MAX_WAITING, halves
from kvxray_backend.delivery.lanes import Lanes
from kvxray_backend.delivery.message import MessageMaker
from kvxray_backend.delivery.notice import Notice
from kvxray_backend.delivery.outcome import Accepted, Failed, Outcome, Refused
from kvxray_backend.delivery.senders import Sender
from kvxray_backend.delivery.stored_notices import read_notices
from kvxray_backend.delivery.target import Target

LOOK_S: Final = 0.25
"""How often is looked whether something is due, while something waits."""
IDLE_S: Final = 2.0

logger = logging.getLogger(__name__)


class LaneLoop:
    """Belongs to the delivering thread. `wake` may be set by it only."""

    def __init__(
        self,
        target: Target,
        sender: Sender,
        lanes: Lanes,
        messages: MessageMaker,
        keeping: Keeping,
        database: Database,
        clock: Clock,
        muted: Callable[[Alert], bool],
        told_again_s: float = TOLD_AGAIN_S,
    ) -> None:
        self.target = target
        self.wake = asyncio.Event()
        self._sender = sender
        self._lanes = lanes
        self._messages = messages
        self._keeping = keeping
        self._database = database
        self._clock = clock
        self._muted = muted
        self._told_again_ns = int(told_again_s * 1e9)
        self._told_ns = 0

    async def run(self, http: httpx2.AsyncClient, stop: asyncio.Event) -> None:
        """Until `stop`; what is under way then is finished."""
        while not stop.is_set():
            # Before looking: what comes from now on is looked at again.
            self.wake.clear()
            has_sent = await self._sound_turn(http)
            if not has_sent:
                await self._pause()
        await self._keeping.keep(waits=True)

    async def _sound_turn(self, http: httpx2.AsyncClient) -> bool:
        try:
            return await self._turn(http)
        # A mistake of ours must not end all delivery.
        except Exception:
            logger.exception("%s could not be told of alerts", self.target.name)
            return False

    async def _turn(self, http: httpx2.AsyncClient) -> bool:
        """Whether anything went out."""
        if self._lanes.wants_stored(self.target.name):
            await self._read_stored()
        now_ns = self._clock.wall_ns()
        notices = self._lanes.begin(self.target.name, now_ns, self._muted)
        # With the id that it goes out with: after a kill it is sent under the same. An Alertmanager knows alerts by
        # their labels, and what it is told twice is once there.
        await self._keeping.keep(waits=bool(notices) and self.target.kind == "webhook")
        if notices:
            await self._send(http, notices)
            return True
        if self._is_told_again(now_ns):
            await self._tell_again(http)
        return False

    async def _send(self, http: httpx2.AsyncClient, notices: list[Notice]) -> None:
        outcome = await self._outcome(http, notices)
        self._lanes.settle(self.target.name, outcome, self._clock.wall_ns())
        # Not waited for: it may be told again under its id, and others are to be told.
        await self._keeping.keep(waits=False)
        self._log(outcome)

    async def _outcome(self, http: httpx2.AsyncClient, notices: list[Notice]) -> Outcome:
        try:
            messages = [self._messages.of(notice) for notice in notices]
            return await self._sender.send(http, messages, notices[0].row.delivery)
        # A mistake of ours over one alert must not end all delivery.
        except Exception as error:
            logger.exception("An alert could not be written for %s", self.target.name)
            return Refused(f"kvxray made a mistake over it ({type(error).__name__}).")

    def _is_told_again(self, now_ns: int) -> bool:
        if self.target.kind != "alertmanager" or not self._lanes.may_try(self.target.name, now_ns):
            return False
        return not 0 <= now_ns - self._told_ns < self._told_again_ns

    async def _tell_again(self, http: httpx2.AsyncClient) -> None:
        """All that fires, so that it goes on firing there, and fires again where all was forgotten."""
        self._told_ns = self._clock.wall_ns()
        alerts = self._lanes.all_firing()
        most = MAX_TOGETHER[self.target.kind]
        for at in range(0, len(alerts), most):
            outcome = await self._send_again(http, alerts[at : at + most])
            if isinstance(outcome, Failed):
                # As soon as it may be tried again.
                self._told_ns = 0
                return

    async def _send_again(self, http: httpx2.AsyncClient, alerts: Sequence[Alert]) -> Outcome:
        """Where one of them spoils it for the others, each half for itself."""
        messages = [self._messages.of_alert(alert.id, "fired", alert) for alert in alerts]
        outcome = await self._sender.send(http, messages, "")
        if isinstance(outcome, Refused) and len(alerts) > 1:
            for part in halves(alerts):
                outcome = await self._send_again(http, part)
                if isinstance(outcome, Failed):
                    break
            return outcome
        self._lanes.note(self.target.name, outcome, self._clock.wall_ns())
        self._log(outcome)
        return outcome

    async def _read_stored(self) -> None:
        name = self.target.name
        self._lanes.begin_reading(name)
        try:
            notices, lost, has_more = await asyncio.to_thread(read_notices, self._database, [name], MAX_WAITING)
        except SQLAlchemyError as error:
            logger.warning("What waits for %s cannot be read: %s", name, error)
            return
        self._lanes.put_stored(name, notices, has_more=has_more)
        self._lanes.give_up(name, lost)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), LOOK_S if self._lanes.waiting(self.target.name) else IDLE_S)

    def _log(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Accepted):
            logger.warning("%s (%s) was not told: %s", self.target.name, self.target.address, outcome.why)
