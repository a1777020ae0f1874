"""Reads the metrics of one watched engine for as long as it is watched: its own page, or out of a Prometheus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import httpx2

from kvxray_backend.metrics.bearer import TokenPlace
from kvxray_backend.metrics.configuration import Configuration
from kvxray_backend.metrics.metrics_http import metrics_http
from kvxray_backend.metrics.prometheus_api import PrometheusApi
from kvxray_backend.metrics.prometheus_reader import PrometheusReader
from kvxray_backend.metrics.scraper import Scrape, Scraper, ScrapeStatus
from kvxray_backend.metrics.sglang_server import read_server_info
from kvxray_backend.observed.spec import ObserveSpec

AFTER_A_FAULT_S: Final = 5.0

logger = logging.getLogger(__name__)


class _Reader(Protocol):
    async def run(self) -> None: ...


class MetricsReading:
    """`take` and `configure` are called in threads, one at a time; `tell` on the event loop."""

    def __init__(
        self,
        spec: ObserveSpec,
        take: Callable[[Scrape], object],
        tell: Callable[[ScrapeStatus], object],
        configure: Callable[[Configuration], object],
    ) -> None:
        self._spec = spec
        self._take = take
        self._tell = tell
        self._configure = configure

    async def run(self) -> None:
        """Until it is cancelled; what it does not expect it says in the log, and begins anew."""
        while True:
            try:
                async with await asyncio.to_thread(http_of, self._spec) as http:
                    await self._configured(http)
                    await self._reader(http).run()
            except ValueError as error:
                self._tell(ScrapeStatus(failure=str(error), num_failures=1))
            except Exception:
                logger.exception("Reading the metrics of %s stumbled; it begins anew.", self._spec.name)
            await asyncio.sleep(AFTER_A_FAULT_S)

    async def _configured(self, http: httpx2.AsyncClient) -> None:
        if self._spec.make == "sglang" and self._spec.metrics is not None:
            told = await read_server_info(http, self._spec.metrics)
            if told is not None:
                await asyncio.to_thread(self._configure, told)

    def _reader(self, http: httpx2.AsyncClient) -> _Reader:
        """Raises ValueError, one sentence."""
        spec = self._spec
        if spec.prometheus is not None:
            api = PrometheusApi(http, spec.prometheus, spec.match)
            return PrometheusReader(api, self._take, every_s=spec.every_s, tell=self._tell)
        assert spec.metrics is not None, "without an address nothing is read"
        return Scraper(http, spec.metrics, self._take, every_s=spec.every_s, tell=self._tell)


def http_of(spec: ObserveSpec) -> httpx2.AsyncClient:
    """Raises ValueError, one sentence, for a file of certificates that holds none."""
    token = None
    if spec.token_file is not None or spec.token_env is not None:
        token = TokenPlace(Path(spec.token_file) if spec.token_file is not None else None, spec.token_env or "")
    return metrics_http(token, Path(spec.ca_file) if spec.ca_file is not None else None)
