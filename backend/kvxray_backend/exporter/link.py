"""Where the page shows an engine that others know by its labels, at a moment as others write it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_backend.moments import LIVE, iso_time

MAX_LISTED: Final = 5
_UNIX: Final = re.compile(r"([0-9]{10,19})(?:\.([0-9]{1,9})[0-9]{0,9})?")
# Digits before the point of a time in seconds, milliseconds and so on, from 2001 to 2286.
_NS_OF_DIGITS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}


@dataclass(frozen=True, slots=True)
class Place:
    """A source that there is: its engine, and the labels that others may know it by."""

    source: str
    engine: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def is_meant(self, asked: Mapping[str, str]) -> bool:
        """asked: `engine`, `source` and labels; only what is not empty counts."""
        own = {**self.labels, "engine": self.engine, "source": self.source}
        return all(own.get(name) == text for name, text in asked.items() if text)


class NotOne(Exception):
    """No engine is meant, or several; one sentence. is_many: several."""

    def __init__(self, sentence: str, *, is_many: bool) -> None:
        super().__init__(sentence)
        self.is_many = is_many


def find_place(places: Sequence[Place], asked: Mapping[str, str]) -> Place:
    """The only engine that is meant; of its sources the first. Raises `NotOne`."""
    meant = [place for place in places if place.is_meant(asked)]
    engines = list(dict.fromkeys(place.engine for place in meant))
    if not meant:
        told = ", ".join(f"{name} {text[:80]!r}" for name, text in asked.items() if text)
        raise NotOne(f"No engine here has {told}." if told else "No engine is watched here.", is_many=False)
    if len(engines) > 1:
        listed = ", ".join(engines[:MAX_LISTED]) + (
            f" and {len(engines) - MAX_LISTED} more" * (len(engines) > MAX_LISTED)
        )
        raise NotOne(f"Several engines are meant: {listed}; name one with engine.", is_many=True)
    return meant[0]


def moment_text(at: str) -> str:
    """A moment as the page takes it. at: also Unix time, in seconds or, as Grafana tells it, in milliseconds."""
    match = _UNIX.fullmatch(at.strip())
    if match is None:
        return at.strip() or LIVE
    unit_ns = _NS_OF_DIGITS.get(len(match[1]))
    if unit_ns is None:
        return at.strip()
    parts = int((match[2] or "").ljust(9, "0")) * unit_ns // 10**9
    return iso_time(int(match[1]) * unit_ns + parts)
