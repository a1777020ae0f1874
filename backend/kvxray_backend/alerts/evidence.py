"""All that is known of one engine up to a moment, as rules ask for it: signals over time, figures, findings.

Nothing here is 0 for want of knowledge: what was not told has no value, and neither has a window that is known in
part, where half a window could pass for a whole one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvxray_backend.alerts.signal_track import Key, SignalTrack
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure
from kvxray_backend.metrics.minute import Spread, Stood

if TYPE_CHECKING:
    from kvxray_backend.signal_history import Timed

STALE_AFTER_S: Final = 120.0
"""A gauge read longer ago tells nothing of now."""


@dataclass(slots=True)
class Evidence:
    """told: what metrics told, in order of time, where no `tracks` are kept of it. findings: open ones, and those that
    began in the last minutes; None: nobody looks for any. started_s: when the process began; None: not known.
    unread_before_s: what was told before may be known and is still to be read; None: all is. reads: when metrics were
    read; None: as `told` says. Times in Unix seconds.
    """

    told: Sequence[Timed]
    findings: Sequence[Finding] | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    started_s: float | None = None
    unread_before_s: float | None = None
    reads: array[float] | None = None
    tracks: dict[Key, SignalTrack] = field(default_factory=dict)
    _numbers: dict[tuple[str, float], float | None] = field(default_factory=dict)

    def forget_numbers(self, before_s: float) -> None:
        """Those of moments before; of all, where more came to be known of the past."""
        self._numbers = {key: value for key, value in self._numbers.items() if key[1] >= before_s}

    def number(self, name: str, at_s: float, make: Callable[[], float | None]) -> float | None:
        """One that is recorded under a name, as it was then: made once, since means ask for the same ones again."""
        key = name, at_s
        if key not in self._numbers:
            self._numbers[key] = make()
        return self._numbers[key]

    def now(self, signal: str, part: str, at_s: float) -> float | None:
        """A gauge as it stood in the last reading."""
        track = self._track(signal, part)
        at = track.place(at_s)
        if track.kind is not Stood or at < 0 or at_s - track.times[at] > STALE_AFTER_S:
            return None
        return track.mean(at)

    def lowest(self, signal: str, part: str, window_s: float, at_s: float) -> float | None:
        return min(self._stood(1, signal, part, window_s, at_s), default=None)

    def highest(self, signal: str, part: str, window_s: float, at_s: float) -> float | None:
        return max(self._stood(2, signal, part, window_s, at_s), default=None)

    def grown(self, signal: str, part: str, window_s: float, at_s: float, *, whole: bool = False) -> float | None:
        """whole: None unless the window is known nearly whole; else what is known of it is the least that it was."""
        track = self._track(signal, part)
        within = track.between(window_s, at_s)
        amounts = track.columns[0][within] if track.kind is not Stood else ()
        if not amounts or (whole and not track.is_known(within, window_s, at_s)):
            return None
        return sum(amounts)

    def total(self, signal: str, window_s: float, at_s: float) -> float | None:
        """Of the values that came into a histogram."""
        track = self._track(signal, "")
        within = track.between(window_s, at_s)
        return sum(track.columns[1][within]) if track.kind is Spread and track.times[within] else None

    def is_read(self, at_s: float) -> bool:
        """Whether any metrics were read of late."""
        if self.reads is None:
            self.reads = array("d", (one.at_s for one in self.told))
        index = bisect_right(self.reads, at_s) - 1
        return index >= 0 and self.reads[index] > at_s - STALE_AFTER_S

    def _stood(self, column: int, signal: str, part: str, window_s: float, at_s: float) -> Sequence[float]:
        track = self._track(signal, part)
        within = track.between(window_s, at_s)
        if track.kind is not Stood or not track.is_known(within, window_s, at_s):
            return ()
        return track.columns[column][within]

    def _track(self, signal: str, part: str) -> SignalTrack:
        """Made once: rules ask for the same signals at many moments."""
        key = (signal, part)
        if key not in self.tracks:
            self.tracks[key] = track = SignalTrack(key)
            track.begin_with(self.told)
        return self.tracks[key]
