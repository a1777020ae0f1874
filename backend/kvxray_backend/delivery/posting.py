"""POSTs and questions to targets: a new connection each, no proxy, no redirect, bounded in time and in what is read."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Mapping
from typing import Final

import httpx2

from kvxray_backend.delivery.outcome import Accepted, Failed, Outcome, outcome_of
from kvxray_backend.delivery.target import Target
from kvxray_backend.metrics.metrics_http import usual_authorities, why_not_connected

TIMEOUT_S: Final = 10.0
MAX_SAID_BYTES: Final = 400
THREAD_NAME: Final = "kvxray-delivery"
_PLAIN_WORDS: Final = re.compile(r"[a-zA-Z_ ,.:;'\"=()\[\]{}-]{1,160}")


def target_http() -> httpx2.AsyncClient:
    """One client for all targets. Nothing is kept open: a connection that the other side forgot would leave unknown
    whether the next POST arrived.
    """
    _tell_no_addresses()
    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        verify=usual_authorities(),
        limits=httpx2.Limits(max_keepalive_connections=0),
        headers={"accept-encoding": "identity", "user-agent": "kvxray"},
    )


async def post(
    http: httpx2.AsyncClient, target: Target, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> Outcome:
    """The status decides: of a 2xx nothing more is read. Raises nothing."""
    sent = {"content-type": "application/json", **headers}
    try:
        async with (
            asyncio.timeout(timeout_s),
            http.stream("POST", url, content=body, headers=sent, timeout=timeout_s) as response,
        ):
            outcome = outcome_of(response.status_code, retry_after=response.headers.get("retry-after", ""))
            if isinstance(outcome, Accepted):
                return outcome
            said = await _said(response, target)
            return outcome_of(response.status_code, said, response.headers.get("retry-after", ""))
    except httpx2.ConnectTimeout:
        return Failed(f"Nothing answers there within {timeout_s:g} s.", may_have_arrived=False)
    except httpx2.ConnectError as error:
        return Failed(f"{_sentence(why_not_connected(error))}", may_have_arrived=False)
    except (TimeoutError, httpx2.TimeoutException):
        return Failed(f"It does not answer within {timeout_s:g} s.")
    # What it raises may name the address, which is secret.
    except Exception as error:
        return Failed(f"The answer broke off ({type(error).__name__}).")


async def _said(response: httpx2.Response, target: Target) -> str:
    """The beginning of what a refusal says, where it is a few plain words and nothing of the address."""
    if not response.headers.get("content-type", "").startswith(("text/plain", "application/json")):
        return ""
    said = b""
    async for piece in response.aiter_raw(MAX_SAID_BYTES):
        said += piece
        if len(said) >= MAX_SAID_BYTES:
            return ""
    text = said.decode("utf-8", "replace").strip().strip('"').rstrip(".")
    return text if _PLAIN_WORDS.fullmatch(text) and not target.gives_away(text) else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


class _NotOurs(logging.Filter):
    """The client tells every address that it asks, at a level that people do switch on."""

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.current_thread().name != THREAD_NAME


_FILTER: Final = _NotOurs()


def _tell_no_addresses() -> None:
    logging.getLogger("httpx2").addFilter(_FILTER)
