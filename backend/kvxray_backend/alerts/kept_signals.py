"""What metrics of one engine told, kept as far back as rules look and no further: as evidence that goes on with time,
so that no look reads again what the looks before it read.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import Node, walk, window_of
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.signal_track import Key, SignalTrack
from kvxray_backend.signal_history import RECENT_S

if TYPE_CHECKING:
    from kvxray_backend.signal_history import Timed

TIDY_EVERY_S: Final = 600.0
LEAST_S: Final = 300.0
"""Of any signal: a gauge is asked for as it was read last, and before that."""
AT_ONCE_S: Final = 10_800.0
"""So much of the past is read at once: few signals are asked for further back, and a look must not wait for a day."""


def windows_of(rules: Iterable[Rule]) -> dict[Key, float]:
    """By signal and part, how far back any of the rules looks."""
    found: dict[Key, float] = {("sleep_state", "awake"): LEAST_S}
    for rule in rules:
        longest = window_of(rule.when) + LEAST_S
        for node in walk(rule.when):
            if (key := _key_of(node)) is not None:
                found[key] = max(found.get(key, 0.0), longest)
    return found


def signals_of(windows: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(signal for signal, _ in windows))


def _key_of(node: Node) -> Key | None:
    signal = getattr(node, "signal", None)
    return (signal, getattr(node, "part", "")) if isinstance(signal, str) else None


@dataclass(frozen=True, slots=True)
class ToRead:
    """What was told before we began, of these signals. Unix seconds."""

    from_s: float
    to_s: float
    signals: tuple[str, ...]


class KeptSignals:
    """windows: by signal and part, for how many seconds it is kept; others are not. `evidence` goes on with it."""

    def __init__(self, windows: Mapping[Key, float], now_s: float, *, has_past: bool = True) -> None:
        """now_s: before that it may have been told more, which is `to_read`. has_past: else nothing of it counts."""
        self.windows = windows
        self.last_s = 0.0 if has_past else now_s
        self._longest_s = max(windows.values(), default=0.0) if has_past else 0.0
        self._began_s = self._unread_s = now_s
        self._reads = array("d")
        self._tidied_s: float | None = None
        self._tracks = {key: SignalTrack(key) for key in windows}
        self.evidence = Evidence((), tracks=self._tracks, reads=self._reads)
        self.evidence.unread_before_s = now_s if self.to_read is not None else None

    @property
    def to_read(self) -> ToRead | None:
        """What is to be read next, the newest first; None: all was."""
        from_s = max(self._unread_s - AT_ONCE_S, self._began_s - self._longest_s)
        if from_s >= self._unread_s:
            return None
        far = [key for key, window_s in self.windows.items() if self._began_s - window_s < self._unread_s]
        return ToRead(from_s, self._unread_s, signals_of(far))

    def begin_with(self, read: ToRead, past: Iterable[Timed]) -> None:
        """What was told in a stretch that was `to_read`; what of it is known already is left out."""
        began = [track.times[0] - track.seconds[0] for track in self._tracks.values() if track.times]
        first_s = min(began, default=read.to_s)
        older = [one for one in past if one.at_s <= first_s]
        for key, track in self._tracks.items():
            young_s = self._began_s - self.windows[key]
            track.begin_with(one for one in older if one.at_s > young_s)
        self._reads[:0] = array("d", (one.at_s for one in older if one.at_s > self._began_s - RECENT_S))
        self._unread_s = read.from_s
        self.evidence.unread_before_s = read.from_s if self.to_read is not None else None
        self.evidence.forget_numbers(inf)

    def add(self, told: Iterable[Timed]) -> None:
        """In order of time; what is not newer than what is kept is left out."""
        for one in told:
            if one.at_s > self.last_s:
                self.last_s = one.at_s
                self._reads.append(one.at_s)
                for track in self._tracks.values():
                    track.add(one)
        if self._tidied_s is None and self._reads:
            # Engines that were attached together are not tidied together: that would make one look a long one.
            self._tidied_s = self.last_s - random.uniform(0, TIDY_EVERY_S)
        if self._tidied_s is not None and self.last_s - self._tidied_s >= TIDY_EVERY_S:
            self._tidy()

    def _tidy(self) -> None:
        """What was read more than an hour ago is put together by the minute, and what no rule asks for goes."""
        self._tidied_s = now_s = self.last_s
        for key, track in self._tracks.items():
            track.tidy(now_s - self.windows[key], now_s - RECENT_S)
        del self._reads[: bisect_right(self._reads, now_s - RECENT_S)]
        self.evidence.forget_numbers(now_s - max(self.windows.values(), default=0.0))
