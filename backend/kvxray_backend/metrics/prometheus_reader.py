"""Reads one engine's metrics out of an existing Prometheus: its past once, then what is now every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.metrics_http import FetchError
from kvxray_backend.metrics.prometheus_answer import AnswerError
from kvxray_backend.metrics.prometheus_api import LEAST_STEP_S, LONGEST_BACK_S, PrometheusApi
from kvxray_backend.metrics.reading import read_page
from kvxray_backend.metrics.scraper import EVERY_S, Scrape, ScrapeStatus

DAY_S: Final = 86_400.0
NOTHING: Final = "nothing there has these labels and is a metric of an engine"


class PrometheusReader:
    """`take` gets each page in a thread of its own, in order of time; `tell` each change of `status`, on the event
    loop. The past (fifteen days, the last one more finely) is asked for until it, or what is now, came.
    """

    def __init__(
        self,
        api: PrometheusApi,
        take: Callable[[Scrape], object],
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
        tell: Callable[[ScrapeStatus], object] = lambda _: None,
    ) -> None:
        self.status = ScrapeStatus()
        self._api = api
        self._take = take
        self._every_s = every_s
        self._clock = clock
        self._tell = tell
        self._has_begun = False

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            began = time.monotonic()
            await self.read()
            spent = time.monotonic() - began
            await asyncio.sleep(max(0.0, self.status.wait_s(self._every_s) - spent))

    async def read(self) -> bool:
        """Once. False: it failed, and `status` says why."""
        try:
            if not self._has_begun:
                await self._read_past()
            at_s = self._clock()
            page = await self._api.page(at_s)
            self._has_begun = True
        except (FetchError, AnswerError) as error:
            self._failed(str(error))
            return False
        if not page.samples:
            self._failed(NOTHING)
            return False
        await self._hand_on(at_s, page)
        self.status = self.status.with_page(at_s, page)
        self._tell(self.status)
        return True

    async def _read_past(self) -> None:
        """One that does not answer for the past may still do so for now."""
        to_s = self._clock()
        try:
            await self._read_stretch(to_s - LONGEST_BACK_S, to_s - DAY_S)
            await self._read_stretch(to_s - DAY_S + LEAST_STEP_S, to_s)
        except (FetchError, AnswerError) as error:
            self._failed(str(error))

    async def _read_stretch(self, from_s: float, to_s: float) -> None:
        async for at_s, page in self._api.back_fill(from_s, to_s):
            self._has_begun = True
            await self._hand_on(at_s, page)

    async def _hand_on(self, at_s: float, page: Page) -> None:
        reading = await asyncio.to_thread(read_page, page)
        await asyncio.to_thread(self._take, Scrape(at_s, page, reading))

    def _failed(self, why: str) -> None:
        self.status = self.status.with_failure(why)
        self._tell(self.status)
