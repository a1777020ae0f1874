"""Reads one engine's metrics page every few seconds, and says when it no longer can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import httpx2

from kvxray_backend.metrics.exposition import MAX_PAGE_BYTES, NotMetricsError, Page, parse_page
from kvxray_backend.metrics.metrics_http import FetchError, checked_url, get_bytes
from kvxray_backend.metrics.reading import PageReading, read_page

EVERY_S: Final = 5.0
TIMEOUT_S: Final = 4.0
LONGEST_WAIT_S: Final = 60.0
# Pages missed in a row before what was read last no longer tells how things are.
MISSED_BEFORE_STALE: Final = 3
ACCEPT: Final = "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class ScrapeStatus:
    """`last_page_s`: when a page was read last, None for never. `failure`: why the newest try failed, empty if it
    did not. `num_failures`: in a row.
    """

    last_page_s: float | None = None
    failure: str = ""
    num_failures: int = 0
    num_pages: int = 0
    num_bad_lines: int = 0

    def with_page(self, at_s: float, page: Page) -> ScrapeStatus:
        num_bad = self.num_bad_lines + page.num_bad_lines
        return ScrapeStatus(last_page_s=at_s, num_pages=self.num_pages + 1, num_bad_lines=num_bad)

    def with_failure(self, why: str) -> ScrapeStatus:
        return replace(self, failure=why, num_failures=self.num_failures + 1)

    def wait_s(self, every_s: float) -> float:
        """Twice as long after each failure in a row, up to a minute."""
        doubled = every_s * float(1 << min(self.num_failures, 16))
        return min(doubled, max(LONGEST_WAIT_S, every_s))


@dataclass(frozen=True, slots=True)
class Scrape:
    """A page, asked for at `at_s` (seconds since 1970), and what it tells by the table of signals."""

    at_s: float
    page: Page
    reading: PageReading


async def fetch_page(http: httpx2.AsyncClient, url: str, timeout_s: float = TIMEOUT_S) -> Page:
    """Raises FetchError and NotMetricsError, each with one sentence."""
    body = await get_bytes(http, url, max_bytes=MAX_PAGE_BYTES, timeout_s=timeout_s, accept=ACCEPT)
    # Here and below: a page of many ranks takes longer than the event loop may be held up.
    return await asyncio.to_thread(parse_page, body)


class Scraper:
    """`take` gets each page in a thread of its own, already read; `tell` each change of `status` on the event loop.
    Raises ValueError for an address that is none.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        take: Callable[[Scrape], object],
        *,
        every_s: float = EVERY_S,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.time,
        tell: Callable[[ScrapeStatus], object] = lambda _: None,
    ) -> None:
        self._http = http
        self._url = checked_url(url)
        self._take = take
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._tell = tell
        self.status = ScrapeStatus()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            began = time.monotonic()
            await self.scrape()
            spent = time.monotonic() - began
            await asyncio.sleep(max(0.0, self.wait_s() - spent))

    async def scrape(self) -> bool:
        """Once. False: it failed, and `status` says why."""
        at_s = self._clock()
        try:
            page = await fetch_page(self._http, self._url, self._timeout_s)
        except (FetchError, NotMetricsError) as error:
            self._failed(str(error))
            return False
        reading = await asyncio.to_thread(read_page, page)
        await asyncio.to_thread(self._take, Scrape(at_s, page, reading))
        self.status = self.status.with_page(at_s, page)
        self._tell(self.status)
        return True

    def wait_s(self) -> float:
        return self.status.wait_s(self._every_s)

    def stale_sentence(self, now_s: float) -> str:
        """Empty while what was read last still tells how things are."""
        last_s = self.status.last_page_s
        if last_s is None:
            return f"no metrics yet: {self.status.failure}" if self.status.failure else ""
        missing_s = now_s - last_s
        if missing_s <= self._every_s * MISSED_BEFORE_STALE + self._timeout_s:
            return ""
        why = f": {self.status.failure}" if self.status.failure else ""
        return f"no metrics for {missing_s:.0f} s{why}"

    def _failed(self, why: str) -> None:
        self.status = self.status.with_failure(why)
        self._tell(self.status)
