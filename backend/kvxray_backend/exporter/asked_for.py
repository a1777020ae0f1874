"""What whoever scrapes asks for: the format of the page, and whether it may be compressed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_OPEN_METRICS: Final = "application/openmetrics-text"
_VERSION: Final = "1.0.0"
_TEXT: Final = ("text/plain", "text/*", "*/*")


def wants_open_metrics(accept: str) -> bool:
    """Whether OpenMetrics is wanted at least as much as plain text; without a word plain text is."""
    wanted = dict(_weighed(accept))
    text = max((wanted.get(name, 0.0) for name in _TEXT), default=0.0)
    return wanted.get(_OPEN_METRICS, 0.0) > 0 and wanted[_OPEN_METRICS] >= text


def takes_gzip(accept_encoding: str) -> bool:
    wanted = dict(_weighed(accept_encoding))
    return wanted.get("gzip", wanted.get("*", 0.0)) > 0


def _weighed(header: str) -> Iterator[tuple[str, float]]:
    """Each entry with how much it is wanted; what is no number counts as 0. The least wanted first, so that of an entry
    told twice the better counts.
    """
    entries: list[tuple[float, str]] = []
    for entry in header[:2048].split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        version = next((one[8:] for one in parameters if one.startswith("version=")), _VERSION)
        # Of OpenMetrics only one version is told: whoever wants another one is better off with plain text.
        if name != _OPEN_METRICS or version == _VERSION:
            entries.append((_number(weight), name))
    yield from ((name, weight) for weight, name in sorted(entries))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
