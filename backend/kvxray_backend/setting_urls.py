"""URLs and ports as settings have them: checked, and called in messages without the secrets that they may hold."""

from __future__ import annotations

import re
from urllib.parse import urlsplit


def is_port(digits: str) -> bool:
    return len(digits) <= 5 and 1 <= int(digits) <= 65535


def checked_url(url: str) -> str:
    """The http or https URL itself. Raises ValueError with one sentence."""
    if not re.fullmatch(r"https?://\S+", url):
        raise ValueError(f"{_without_secrets(url)!r} is not a URL such as http://127.0.0.1:8000")
    if not _names_a_server(url):
        raise ValueError(f"{_without_secrets(url)!r} does not name a server and a port from 1 to 65535")
    return url


def _without_secrets(url: str) -> str:
    """As a message may have it: without name and password, and without a path that may be one."""
    return re.sub(r"(?<=[^:/])([/?#]).+", r"\1…", re.sub(r"(?<=//).*@", "…@", url), count=1)


def _names_a_server(url: str) -> bool:
    """Whether an http URL has a host, and a port that can be reached where it has one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
