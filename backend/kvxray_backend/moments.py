"""Moments as text: `live`, `EPOCH.SEQ` such as 3.10482, or an ISO-8601 time; the same in routes, findings, frames and
links.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from kvxray_engine.errors import UserError

LIVE: Final = "live"

_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NS: Final = 2**63 - 1
_POINT: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})")
_TIME: Final = re.compile(r"[0-9]{4}[0-9W-]{4,6}([T ][0-9:]{2,8}([.,]([0-9]{1,9})[0-9]{0,9})?(Z|[ +-][0-9:.]{2,15})?)?")


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


@dataclass(frozen=True, slots=True)
class Moment:
    """What `at` asks for: the present (neither point nor time), the state after one event, or after the last event at
    or before a time.

    A time is meant as finely as it is written, to the millisecond at least, since that is how times are told: it is all
    of the nanoseconds from `begin_ns` to `t_ns`, so that the time told of an event never misses the event.
    """

    point: Point | None = None
    t_ns: int | None = None
    begin_ns: int | None = None

    @property
    def is_live(self) -> bool:
        return self.point is None and self.t_ns is None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads live, EPOCH.SEQ or an ISO-8601 time; one without a zone is UTC. Raises `UserError`."""
        if text == LIVE:
            return cls()
        if _POINT.fullmatch(text):
            return cls(point=Point.parse(text))
        match = _TIME.fullmatch(text.strip().upper())
        try:
            if match is None:
                raise ValueError
            # In an address a plus is a space: 2026-11-29T20:00:00+01:00 is meant all the same.
            time = datetime.fromisoformat(match[0].replace(" ", "+") if "T" in match[0] else match[0])
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
            since_ns = (time - _UNIX_EPOCH) // timedelta(microseconds=1) * 1000
        except (ValueError, OverflowError):
            raise UserError(f"Write the moment as live, EPOCH.SEQ or an ISO-8601 time, not {text[:40]!r}.") from None
        digits = match[3] or ""
        begin_ns = since_ns + int(digits[6:9].ljust(3, "0"))
        unit_ns = 1 if len(digits) > 6 else 1000 if len(digits) > 3 else 1_000_000
        return cls(t_ns=_clamped(begin_ns + unit_ns - 1), begin_ns=_clamped(begin_ns))


def _clamped(ns: int) -> int:
    return min(max(ns, 0), _LAST_NS)


def iso_time(ns: int) -> str:
    """Unix nanoseconds as ISO-8601 in UTC, to the millisecond; times outside the calendar are clamped to its ends."""
    seconds, rest = divmod(ns, 1_000_000_000)
    clamped = min(max(seconds, 0), 253_402_300_799)
    return datetime.fromtimestamp(clamped, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest // 1_000_000:03d}Z"


def iso_time_or_none(ns: int | None) -> str | None:
    """As `iso_time`; None for None and for 0, which means never."""
    return iso_time(ns) if ns else None
