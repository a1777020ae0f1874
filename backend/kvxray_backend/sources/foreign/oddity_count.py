"""Counts what a decoder did not understand, by name, in bounded memory: names come from outside too."""

from __future__ import annotations

from typing import Final

from kvxray_backend.sources.foreign.told import NO_ODDITIES, Oddities

MAX_NAMES: Final = 32
MAX_NAME: Final = 64
OTHERS: Final = "…"
"""Counts all names beyond the first 32."""


class OddityCount:
    """The oddities of one payload while it is decoded."""

    def __init__(self) -> None:
        self._events: dict[str, int] = {}
        self._fields: dict[str, int] = {}
        self._bad_events = 0

    def unknown_event(self, name: str) -> None:
        _count(self._events, name)

    def unknown_field(self, event: str, name: str) -> None:
        """A field that is not known, or that does not hold what it should, of an event or of the batch."""
        _count(self._fields, f"{event}.{name[:MAX_NAME]}")

    def bad_event(self) -> None:
        self._bad_events += 1

    def total(self) -> Oddities:
        if not (self._events or self._fields or self._bad_events):
            return NO_ODDITIES
        return Oddities(self._events, self._fields, self._bad_events)


def _count(counts: dict[str, int], name: str) -> None:
    name = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
    if name not in counts and len(counts) >= MAX_NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1
