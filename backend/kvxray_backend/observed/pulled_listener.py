"""Asks TensorRT-LLM's server for its events again and again: what it answers is gone from its queue.

So nothing is asked twice, and what was answered is taken whole. A server that does not answer is asked less often.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

import httpx2

from kvxray_backend.metrics.metrics_http import FetchError, get_bytes
from kvxray_backend.observed.batch_intake import BatchIntake
from kvxray_backend.observed.engine_findings import Unreadable
from kvxray_backend.observed.listener import Consumer
from kvxray_backend.observed.metrics_reading import http_of
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.hand_over import Publisher
from kvxray_backend.sources.foreign.json_events import MAX_LIST_BYTES
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

EVERY_S: Final = 0.5
LONGEST_S: Final = 30.0
TIMEOUT_S: Final = 10.0
_PUBLISHER: Final = Publisher(0, b"")


class PulledListener:
    """From its making to `close`."""

    def __init__(self, spec: ObserveSpec, chains: TokenChains, consumer: Consumer) -> None:
        """Raises ValueError, one sentence, for a file of certificates that holds none."""
        assert spec.events is not None, "there is an address to ask"
        self.trouble = ""
        self._url = spec.events
        self._consumer = consumer
        self._woken = threading.Event()
        self._events = TrtllmEvents(chains)
        self._intake = BatchIntake()
        self._num_bad = 0
        self._num_failures = 0
        self._ask_at_s = 0.0
        self._runner = asyncio.Runner()
        self._http: httpx2.AsyncClient = http_of(spec)

    @property
    def unreadable(self) -> Unreadable:
        num = self._num_bad + self._intake.num_unplaced
        return Unreadable(num, "It is no event as TensorRT-LLM tells it.")

    @property
    def is_behind(self) -> bool:
        return False  # nothing waits for what is missing

    @property
    def num_dropped(self) -> int:
        return 0  # what is not asked for waits where it is

    def turn(self, wait_s: float) -> None:
        now_s = time.monotonic()
        if now_s >= self._ask_at_s:
            self._ask()
            self._ask_at_s = now_s + min(EVERY_S * (1 << min(self._num_failures, 16)), LONGEST_S)
        else:
            self._woken.wait(min(wait_s, self._ask_at_s - now_s))
        self._consumer.advance()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        try:
            self._consumer.take_in_turns(self._intake.finish())
            self._runner.run(self._http.aclose())
        finally:
            self._runner.close()
            self._consumer.let_go()

    def _ask(self) -> None:
        try:
            body = self._runner.run(
                get_bytes(self._http, self._url, max_bytes=MAX_LIST_BYTES, timeout_s=TIMEOUT_S, method="POST")
            )
        except FetchError as error:
            self._num_failures += 1
            self.trouble = str(error)
            return
        self._num_failures, self.trouble = 0, ""
        self._take(body)

    def _take(self, body: bytes) -> None:
        if body.strip() in (b"", b"[]"):
            return
        try:
            batches = self._events.decode(body)
        except BadBatch:
            self._num_bad += 1
            return
        size = len(body) // max(1, len(batches))
        for batch in batches:
            self._consumer.take_in_turns(self._intake.offer(_PUBLISHER, batch, size))
