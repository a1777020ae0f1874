"""Questions to web servers: nothing but what is configured, never more bytes than allowed, nor longer than allowed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

import httpx2

from kvxray_backend.metrics.bearer import Bearer, NoTokenError, TokenPlace

MAX_URL_CHARS: Final = 2_048


class FetchError(Exception):
    """What was asked for did not come; says why in one sentence."""


def checked_url(text: str) -> str:
    """Raises ValueError with one sentence for what is no address of a web server, or carries a password."""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError):
        raise ValueError(f"{text[:80]!r} is no address") from None
    if url.scheme not in ("http", "https") or not url.host or len(text) > MAX_URL_CHARS:
        raise ValueError(f"{text[:80]!r} is no address such as http://engine:8000/metrics")
    if url.userinfo:
        raise ValueError("an address must not carry a password; give a token in a file or an environment variable")
    return text


def metrics_http(token: TokenPlace | None = None, ca_file: Path | None = None) -> httpx2.AsyncClient:
    """No proxies, no redirects; certificates are verified, by the usual authorities or by those of a file. Raises
    ValueError, one sentence, for a file that holds none.
    """
    try:
        verify = ssl.create_default_context(cafile=str(ca_file)) if ca_file is not None else usual_authorities()
    except OSError:
        raise ValueError(f"the file {ca_file} holds no certificates that can be read") from None
    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        verify=verify,
        auth=Bearer(token) if token is not None else None,
        # Compressed, a small answer may be a huge page.
        headers={"accept-encoding": "identity"},
    )


@cache
def usual_authorities() -> ssl.SSLContext:
    """Read once: it takes longer than many a page."""
    return httpx2.create_ssl_context()


async def get_bytes(
    http: httpx2.AsyncClient,
    url: str,
    *,
    max_bytes: int,
    timeout_s: float,
    params: Mapping[str, str] | None = None,
    accept: str = "*/*",
    bad_request_too: bool = False,
    method: Literal["GET", "POST"] = "GET",
) -> bytes:
    """The body of a 200; bad_request_too: of a 400 or 422 as well, where the server says in it what was wrong.

    timeout_s bounds the whole answer, not each piece of it. Raises FetchError.
    """
    try:
        async with asyncio.timeout(timeout_s):
            request = http.stream(method, url, params=params, headers={"accept": accept}, timeout=timeout_s)
            async with request as response:
                _refuse(response, max_bytes, {200, 400, 422} if bad_request_too else {200})
                return await _capped(response, max_bytes)
    except TimeoutError:
        raise FetchError(f"no whole answer within {timeout_s:g} s") from None
    except NoTokenError as error:
        raise FetchError(str(error)) from None
    except httpx2.TimeoutException:
        raise FetchError(f"no answer within {timeout_s:g} s") from None
    except httpx2.ConnectError as error:
        raise FetchError(why_not_connected(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise FetchError(f"the answer broke off: {_short(error)}") from None


def _refuse(response: httpx2.Response, max_bytes: int, wanted: set[int]) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise FetchError(f"it redirects ({status}), which is not followed; give the address it leads to")
    if status in (401, 403):
        raise FetchError(f"it refuses ({status}): the token is missing or wrong")
    if status not in wanted:
        raise FetchError(f"it answers with {status}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise FetchError("it compresses though it was asked not to")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 15 or int(length) > max_bytes):
        raise FetchError(_too_large(max_bytes))


async def _capped(response: httpx2.Response, max_bytes: int) -> bytes:
    pieces, num_bytes = [], 0
    async for piece in response.aiter_raw():
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            raise FetchError(_too_large(max_bytes))
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(max_bytes: int) -> str:
    return f"the answer is larger than {max_bytes >> 20} MiB"


def why_not_connected(error: BaseException) -> str:
    """What the system said, which lies beneath what others say of it."""
    beneath: BaseException | None = error
    while beneath is not None:
        if isinstance(beneath, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {beneath.verify_message[:200]}"
        if isinstance(beneath, ssl.SSLError):
            return "what answers there does not speak TLS: is it http:// rather than https://?"
        if isinstance(beneath, OSError) and beneath.errno is not None:
            reason = beneath.strerror if isinstance(beneath, socket.gaierror) else os.strerror(beneath.errno)
            return f"nothing answers there: {reason[:1].lower()}{reason[1:200]}" if reason else "nothing answers there"
        beneath = beneath.__cause__ or beneath.__context__
    return "nothing answers there"


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:200]
