"""Moments as text: `live`, `EPOCH.SEQ` such as 3.10482, or an ISO-8601 time; the same in routes, findings, frames and
links.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from kvxray_engine.errors import UserError

LIVE: Final = "live"

_POINT: Final = re.compile(r"(\d{1,9})\.(\d{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The state just after event `seq` of `epoch`."""

    epoch: int
    seq: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads EPOCH.SEQ. Raises `UserError`."""
        match = _POINT.fullmatch(text)
        if not match:
            raise UserError(f"Write the moment as EPOCH.SEQ, such as 3.10482, not {text[:40]!r}.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        assert self.seq >= 0, "events are numbered from 0: before the first there is no moment"
        return f"{self.epoch}.{self.seq}"


def check_live(at: str) -> None:
    """Only the present is kept in memory so far: any other moment is refused with one sentence (`UserError`)."""
    if at == LIVE:
        return
    if not _POINT.fullmatch(at):
        try:
            datetime.fromisoformat(at)
        except ValueError:
            raise UserError(f"Write at as live, EPOCH.SEQ or an ISO-8601 time, not {at[:40]!r}.") from None
    raise UserError("Ask for at=live: states of the past cannot be shown yet.")


def iso_time(ns: int) -> str:
    """Unix nanoseconds as ISO-8601 in UTC, to the millisecond; times outside the calendar are clamped to its ends."""
    seconds, rest = divmod(ns, 1_000_000_000)
    clamped = min(max(seconds, 0), 253_402_300_799)
    return datetime.fromtimestamp(clamped, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest // 1_000_000:03d}Z"


def iso_time_or_none(ns: int | None) -> str | None:
    """As `iso_time`; None for None and for 0, which means never."""
    return iso_time(ns) if ns else None
