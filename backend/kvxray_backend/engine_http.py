"""The client for the engines' own APIs: asks nothing but what is configured, and tells the token to this machine alone.

Engine and page share one token where there is one; a source elsewhere, perhaps another team's, must not learn it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import httpx2

from kvxray_backend.loopback import is_loopback
from kvxray_backend.settings import Settings

TIMEOUT_S: Final = 2.0


def engine_http(settings: Settings) -> httpx2.AsyncClient:
    """No proxies and no redirects."""
    token = settings.token.get_secret_value()
    auth = LoopbackToken(token) if token else None
    return httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False, auth=auth)


class LoopbackToken(httpx2.Auth):
    """Bearer token on requests that stay on this machine, and on no others."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if is_loopback(request.url.host):
            request.headers["authorization"] = f"Bearer {self._token}"
        yield request
