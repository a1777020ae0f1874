"""Stored events from the newest backwards, with filters. Pure but for the `read` it is given.

The API knows no filters: here windows of it are read from the end, each whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Read = Callable[[int, int], list[dict[str, Any]]]
"""(event number, limit) -> events of the epoch from there on, or up to there, oldest first."""

WINDOW = 1000
LOOK_AT_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to find; the empty ones ask for nothing. request, hash: a part of it."""

    kinds: frozenset[str] = frozenset()
    request: str = ""
    block: int | None = None
    hash: str = ""

    @property
    def is_everything(self) -> bool:
        return not self.kinds and not self.request and self.block is None and not self.hash

    def fits(self, event: Event) -> bool:
        return (
            (not self.kinds or event["kind"] in self.kinds)
            and self.request in (event["request_id"] or "")
            and self.block in (None, event["block_id"])
            and self.hash in (event.get("hash") or "")
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Events newest first, and the numbers from `first` up to `last`, both included, that were looked through for them.

    is_all: nothing older is stored.
    """

    events: list[dict[str, Any]]
    first: int
    last: int
    is_all: bool


def number_of(event: Event) -> int:
    """The number of an event within its epoch."""
    return int(event["seq"].partition(".")[2])


def search_back(read: Read, oldest: int, before: int, wanted: Wanted, limit: int) -> Found:
    """Up to `limit` wanted events older than number `before`, of those numbered from `oldest` on.

    Looks through at most LOOK_AT_MOST of them; asked again with `before` = `first`, it goes on.
    """
    found: list[dict[str, Any]] = []
    upper, window = before, limit if wanted.is_everything else WINDOW
    stop = max(oldest, before - LOOK_AT_MOST)
    while upper > stop and len(found) < limit:
        lower = max(stop, upper - window)
        rows = [event for event in read(lower, upper - lower) if number_of(event) < upper and wanted.fits(event)]
        found += reversed(rows)
        upper = lower
    if len(found) > limit:
        found = found[:limit]
        upper = number_of(found[-1])
    return Found(found, upper, before - 1, upper <= oldest)


def search_up_to(read: Read, before: int, wanted: Wanted, limit: int) -> Found:
    """As `search_back`, where numbers leave gaps of any size: `read` gives the last events up to a number."""
    found: list[dict[str, Any]] = []
    upper, looked, is_all = before, 0, before <= 0
    while not is_all and len(found) < limit and looked < LOOK_AT_MOST:
        rows = read(upper - 1, WINDOW)
        found += reversed([event for event in rows if wanted.fits(event)])
        looked += len(rows)
        is_all = len(rows) < WINDOW
        upper = number_of(rows[0]) if rows else 0
    if len(found) > limit:
        found, is_all = found[:limit], False
        upper = number_of(found[-1])
    return Found(found, upper, before - 1, is_all)
