"""How numbers are written on the page, in Python; `components/format.js` writes them alike (a browser test compares).

Unknown is written as an em dash, never as 0. Groups of three digits are parted by commas, times are in the reader's
words.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from math import floor

NO_DATA = "\u2014"


def count(value: float | None) -> str:
    """Whole things: 16,384."""
    return NO_DATA if value is None else f"{_whole(value):,}"


def _whole(value: float) -> int:
    """The nearest whole number, halves up, as a browser rounds them."""
    return floor(value + 0.5)


def percent(ratio: float | None) -> str:
    """A ratio of 0..1 with one decimal: 62.4%. What there is a little of is no 0.0%, what lacks a little no 100.0%."""
    if ratio is None:
        return NO_DATA
    if 0 < ratio < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= ratio < 1 else f"{ratio * 100:.1f}%"


def rate(per_second: float | None) -> str:
    """Per second: one decimal below 100, none above."""
    if per_second is None:
        return NO_DATA
    return f"{per_second:.1f}" if per_second < 100 else f"{_whole(per_second):,}"


def seconds(value: float | None) -> str:
    """A duration: 840 \u00b5s, 4.3 ms, 820 ms, 1.24 s, 3 min 5 s, 2 h 14 min."""
    if value is None:
        return NO_DATA
    if value < 1:
        return _below_a_second(value)
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60)} min"


def _below_a_second(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.0f} \u00b5s"
    return f"{value * 1e3:.1f} ms" if value < 0.01 else f"{value * 1e3:.0f} ms"


def size(num_bytes: float | None) -> str:
    """Bytes in binary units: 512 B, 22.5 KiB, 1.50 GiB."""
    if num_bytes is None:
        return NO_DATA
    value, units = float(num_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    if units[0] == "B":
        return f"{_whole(value)} B"
    return f"{value:.2f} {units[0]}" if value < 10 else f"{value:.1f} {units[0]}"


def duration(value: float | None) -> str:
    """A duration in whole seconds: 12 s, 1 min 12 s, 2 h 14 min."""
    if value is None:
        return NO_DATA
    whole = max(0, floor(value))
    return f"{whole} s" if whole < 60 else seconds(whole)


def moment(iso: str | None, zone: tzinfo = UTC, milliseconds: bool = False) -> str:
    """An instant from the API as a clock in `zone` shows it: 2026-11-22 14:03:21, or 14:03:21.482."""
    if not iso:
        return NO_DATA
    time = _parse(iso).astimezone(zone)
    text = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{time.microsecond // 1000:03d}" if milliseconds else text


def zone_offset(iso: str | None, zone: tzinfo) -> str:
    """The offset in force in `zone` at an instant (None: now): UTC, UTC+2, UTC-3:30."""
    time = _parse(iso) if iso else datetime.now(UTC)
    minutes = int((time.astimezone(zone).utcoffset() or timedelta()).total_seconds() // 60)
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'-' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"


def span(start: str | None, end: str | None) -> str:
    """How long something took, from two instants of the API; an open end counts to now."""
    if not start:
        return NO_DATA
    until = _parse(end) if end else datetime.now(UTC)
    return seconds(max(0.0, (until - _parse(start)).total_seconds()))


def _parse(iso: str) -> datetime:
    parsed = datetime.fromisoformat(iso)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
