"""What an SGLang server says of its own configuration, beside its metrics page."""

from __future__ import annotations

from typing import Any, Final

import httpx2
import msgspec

from kvxray_backend.metrics.configuration import Configuration, sglang_configuration
from kvxray_backend.metrics.metrics_http import FetchError, get_bytes

MAX_INFO_BYTES: Final = 4 << 20
TIMEOUT_S: Final = 4.0
_PATHS: Final = ("/server_info", "/get_server_info")
"""Newer and older ones."""


async def read_server_info(http: httpx2.AsyncClient, metrics_url: str) -> Configuration | None:
    """Of the server whose metrics are there; None where it does not answer, or something else does."""
    metrics = httpx2.URL(metrics_url)
    before = metrics.path.removesuffix("/").removesuffix("/metrics")
    for path in _PATHS:
        url = str(metrics.copy_with(raw_path=(before + path).encode()))
        try:
            body = await get_bytes(http, url, max_bytes=MAX_INFO_BYTES, timeout_s=TIMEOUT_S)
            told: Any = msgspec.json.decode(body)
        except (FetchError, msgspec.MsgspecError, RecursionError):
            continue
        if isinstance(told, dict):
            return sglang_configuration(told)
    return None
