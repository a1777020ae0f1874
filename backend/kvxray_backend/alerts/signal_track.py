"""What one signal, or one part of it, told over time, in columns: an engine has thousands of readings, and hundreds of
engines are kept in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Final

from kvxray_backend.metrics.minute import Counted, Spread, Stood, Told, together
from kvxray_backend.metrics.signals import SIGNALS

if TYPE_CHECKING:
    from kvxray_backend.signal_history import Timed

Key = tuple[str, str]
"""A signal and its part, "" for the whole of it."""
MINUTE_S: Final = 60.0
MAX_STEP_S: Final = 150.0
"""Two readings that lie further apart do not tell what was between them."""
KNOWN_SHARE: Final = 0.8
"""How much of a window must be known before it is said what never happened in it."""
_COLUMNS: Final[Mapping[type[Told], int]] = {Stood: 4, Counted: 1, Spread: 2}


class SignalTrack:
    """For one thread, in order of time. A reading is at `times[i]` and tells of the `seconds[i]` up to it. Of a gauge
    the columns are sum, lowest, highest and number of readings; of a counter its growth; of a histogram how many values
    came, and their sum.
    """

    __slots__ = ("columns", "key", "kind", "seconds", "times")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.kind: type[Told] = _KINDS[SIGNALS[key[0]].kind]
        self.times, self.seconds = array("d"), array("d")
        self.columns = tuple(array("d") for _ in range(_COLUMNS[self.kind]))

    def add(self, timed: Timed) -> None:
        told = told_by(timed, self.key)
        # What an older kvxray stored may be of another kind.
        if type(told) is self.kind:
            self._append(timed.at_s, timed.seconds, *_numbers(told))

    def begin_with(self, past: Iterable[Timed]) -> None:
        """What was told before all that is here."""
        whole = SignalTrack(self.key)
        for timed in past:
            whole.add(timed)
        for mine, older in zip(self._all(), whole._all(), strict=True):
            mine[:0] = older

    def tidy(self, since_s: float, whole_until_s: float) -> None:
        """Forgets what is not newer than `since_s`, and puts together what was read up to `whole_until_s` by the minute
        in which it lies; the end of a minute belongs to it.
        """
        first, last = bisect_right(self.times, since_s), bisect_right(self.times, whole_until_s)
        whole = SignalTrack(self.key)
        for at in range(first, last):
            whole._join(self, at)
        for mine, joined in zip(self._all(), whole._all(), strict=True):
            mine[: max(first, last)] = joined

    def place(self, at_s: float) -> int:
        """Of the last reading up to then; -1: there is none."""
        return bisect_right(self.times, at_s) - 1

    def between(self, window_s: float, at_s: float) -> slice:
        return slice(bisect_right(self.times, at_s - window_s), bisect_right(self.times, at_s))

    def is_known(self, within: slice, window_s: float, at_s: float) -> bool:
        """Whether enough of a window is."""
        begin_s = at_s - window_s
        told = zip(self.times[within], self.seconds[within], strict=True)
        known = sum(min(seconds, MAX_STEP_S, time_s - begin_s) for time_s, seconds in told)
        return known >= KNOWN_SHARE * window_s

    def mean(self, at: int) -> float:
        """Of the readings that stand together there."""
        return self.columns[0][at] / self.columns[3][at]

    def _join(self, of: SignalTrack, at: int) -> None:
        """Takes a reading of another track: into the last one, where both are parts of one minute."""
        at_s, seconds = of.times[at], of.seconds[at]
        if not self.times or seconds >= MINUTE_S or ceil(self.times[-1] / MINUTE_S) != ceil(at_s / MINUTE_S):
            self._append(at_s, seconds, *(column[at] for column in of.columns))
            return
        self.times[-1] = at_s
        self.seconds[-1] += seconds
        for number, column in enumerate(self.columns):
            column[-1] = _JOINED[self.kind][number](column[-1], of.columns[number][at])

    def _append(self, at_s: float, seconds: float, *numbers: float) -> None:
        self.times.append(at_s)
        self.seconds.append(seconds)
        for column, number in zip(self.columns, numbers, strict=True):
            column.append(number)

    def _all(self) -> tuple[array[float], ...]:
        return self.times, self.seconds, *self.columns


def told_by(timed: Timed, key: Key) -> Told | None:
    """key: with no part, all parts of it together."""
    signal, part = key
    told = timed.stretch.told.get(key)
    if told is not None or part:
        return told
    return together(signal, [value for _, value in timed.stretch.parts(signal)])


def _numbers(told: Told) -> tuple[float, ...]:
    if isinstance(told, Stood):
        return told.total, told.lowest, told.highest, told.num
    return (told.amount,) if isinstance(told, Counted) else (told.num, told.total)


def _sum(left: float, right: float) -> float:
    return left + right


_KINDS: Final[Mapping[str, type[Told]]] = {"gauge": Stood, "counter": Counted, "histogram": Spread}
_JOINED: Final = {Stood: (_sum, min, max, _sum), Counted: (_sum,), Spread: (_sum, _sum)}
