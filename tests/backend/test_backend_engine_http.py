"""The token goes to engines on this machine and nowhere else."""

from __future__ import annotations

import httpx2
import pytest
from kvxray_backend.engine_http import LoopbackToken


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:8000/requests/a/text", True),
        ("http://localhost:8000/", True),
        ("http://[::1]:8000/", True),
        ("http://engine.example:8000/", False),
        ("http://10.0.0.7:8000/", False),
        ("http://127.0.0.1.example/", False),
    ],
)
def test_only_loopback_learns_the_token(url: str, told: bool) -> None:
    (request,) = LoopbackToken("secret").auth_flow(httpx2.Request("GET", url))
    assert request.headers.get("authorization") == ("Bearer secret" if told else None)
