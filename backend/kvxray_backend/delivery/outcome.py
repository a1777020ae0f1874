"""What became of a POST: accepted, refused for good, or failed for now; and which answer means which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_WAIT_S: Final = 3_600.0
"""However long a server asks to be left alone."""
_UNREADABLE: Final = frozenset({400, 406, 413, 414, 415, 422, 431})
_LATER: Final = frozenset({408, 423, 425, 429})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A 2xx."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What was sent cannot be taken: sent again, it would be refused again."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Not now. may_have_arrived: it was sent, and nobody knows. is_wrong_place: whoever answered takes no alerts,
    or not yet, which only a few tries can tell.
    """

    why: str
    may_have_arrived: bool = True
    is_wrong_place: bool = False
    retry_after_s: float = 0.0


Outcome = Accepted | Refused | Failed


def outcome_of(status: int, said: str = "", retry_after: str = "", now: datetime | None = None) -> Outcome:
    """said: what the answer's body says, if it may be shown."""
    if 200 <= status < 300:
        return Accepted()
    more = f" and says: {said}" if said else ""
    if status in _UNREADABLE:
        return Refused(f"It refuses what was sent ({status}){more}.")
    if status in _LATER or status >= 500:
        return Failed(f"It answers with {status}{more}.", retry_after_s=wait_of(retry_after, now))
    return Failed(_wrong_place(status, more), is_wrong_place=True)


def _wrong_place(status: int, more: str) -> str:
    if 300 <= status < 400:
        return f"It redirects ({status}), which is not followed; set the address that it leads to."
    if status in (401, 403, 407):
        return f"It lets nobody in ({status}){more}: its address, name or password is wrong."
    if status in (404, 410):
        return f"There is nothing at this address ({status}){more}."
    return f"It answers with {status}{more}."


def wait_of(retry_after: str, now: datetime | None = None) -> float:
    """Seconds, of a header that is a number or a date; 0 for what is neither."""
    text = retry_after.strip()[:64]
    if text.isdecimal() and text.isascii():
        return min(float(text[:9]), LONGEST_WAIT_S)
    try:
        until = parsedate_to_datetime(text)
        seconds = (until.replace(tzinfo=until.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT_S)
