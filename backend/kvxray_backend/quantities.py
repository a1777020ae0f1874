"""Ages, sizes and counts as people write them: 7d, 12h, 10GB, 512MiB, none, 1 epoch."""

from __future__ import annotations

import re
from typing import Any, Final

UNLIMITED: Final = "none"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_BYTES: Final = {
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]+)", re.IGNORECASE)
LONGEST_S: Final = 10**10
LEAST_BYTES: Final = 32 * 10**6
MOST_BYTES: Final = 10**18


def parse_age(text: Any) -> int | None:
    """Seconds; None: no limit. Raises ValueError with one sentence."""
    if text is None or _is_unlimited(text):
        return None
    seconds = _number(text, _SECONDS)
    if seconds is None or not 1 <= seconds <= LONGEST_S:
        raise ValueError(f"{str(text)[:40]!r} is not an age such as 7d, 12h, 30m or none")
    return seconds


def parse_size(text: Any) -> int | None:
    """Bytes; None: no limit. Raises ValueError with one sentence."""
    if text is None or _is_unlimited(text):
        return None
    num_bytes = _number(text, _BYTES)
    if num_bytes is None or num_bytes > MOST_BYTES:
        raise ValueError(f"{str(text)[:40]!r} is not a size such as 10GB, 512MiB or none")
    if num_bytes < LEAST_BYTES:
        raise ValueError(f"{str(text)[:40]!r} is too little to keep a history in; give it at least 32MB")
    return num_bytes


def counted(number: int, thing: str) -> str:
    """`1 epoch`, `1,234 epochs`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def share_text(share: float) -> str:
    """A ratio of 0..1 in whole percent: what there is a little of is no 0%, and what lacks a little no 100%."""
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def age_text(seconds: int | None) -> str:
    if seconds is None:
        return "unlimited"
    name = next((name for name in "dhm" if seconds % _SECONDS[name] == 0), "s")
    return f"{seconds // _SECONDS[name]}{name}"


def size_text(num_bytes: int | None) -> str:
    """To three digits."""
    if num_bytes is None:
        return "unlimited"
    for name, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num_bytes >= factor:
            return (
                f"{num_bytes / factor:.3g} {name}" if num_bytes < 1000 * factor else f"{num_bytes / factor:.0f} {name}"
            )
    return f"{num_bytes} bytes"


def _is_unlimited(text: Any) -> bool:
    return isinstance(text, str) and text.strip().lower() == UNLIMITED


def _number(text: Any, units: dict[str, int]) -> int | None:
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    factor = units.get(match[2].lower()) if match else None
    return round(float(match[1]) * factor) if match and factor else None
