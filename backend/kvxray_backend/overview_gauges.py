"""What the gauges of the rollups were in the last seconds before a moment: lowest, highest and mean. Pure.

They were read a few times a second, so that what they did in between is not known. A reading stands until the next one,
also into a stretch; a stretch of which the beginning is not known has no lowest and no highest.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from kvxray_storage.rollups import ColumnsByName
from numpy.typing import NDArray

GAUGES_READ: Final = ("usable_blocks", "used_last", "used_min", "used_max", "waiting_last", "waiting_min")
_GAP_S: Final = 10
"""Where nothing is known of before, a stretch begins with its first row; one that comes later than this leaves the
beginning unknown."""


def gauges(rows: ColumnsByName, now_s: int) -> dict[str, Any]:
    """Ratios are shares of the usable blocks, None where not known; rows: of ten minutes, by the second."""
    rows = _read(rows)
    used = {reading: _shares(rows, f"used_{reading}") for reading in ("last", "min", "max")}
    minute, five = (_Stood(rows["t_s"], now_s, seconds) for seconds in (60, 300))
    told: dict[str, Any] = {}
    if minute.begins:
        told |= {
            "waiting_low": _number(np.min(minute.of(rows["waiting_last"], rows["waiting_min"]))),
            "used_low": _number(np.min(minute.of(used["last"], used["min"]))),
            "used_high": _number(np.max(minute.of(used["last"], used["max"]))),
        }
    if five:
        told["used_max_5m"] = _number(np.fmax.reduce(five.of(used["last"], used["max"])))
        told["used_mean_5m"] = five.mean(used["last"])
    return told


def _read(rows: ColumnsByName) -> ColumnsByName:
    """Those in which the gauges were read: a chunk that goes on into the next second is read there."""
    was_read = ~np.isnan(rows["usable_blocks"])
    return {name: values[was_read] for name, values in rows.items()}


class _Stood:
    """The last seconds up to that of a moment: what was read in them, and the reading that stood when they began."""

    def __init__(self, t_s: NDArray[np.int64], now_s: int, seconds: int) -> None:
        self.begin_s, self.end_s = now_s - seconds, now_s + 1
        self.first, self.t_s = int(np.searchsorted(t_s, self.begin_s)), t_s
        self.was_standing = self.first > 0

    def __len__(self) -> int:
        return len(self.t_s) - self.first + self.was_standing

    @property
    def begins(self) -> bool:
        """Whether it is known from its beginning on, about."""
        return self.was_standing or len(self) > 0 and int(self.t_s[0]) <= self.begin_s + _GAP_S

    def of(self, last: NDArray[np.float64], extreme: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lowest or the highest of each second; of the one that stood before, its last."""
        standing = last[self.first - 1 : self.first] if self.was_standing else last[:0]
        return np.concatenate((standing, extreme[self.first :]))

    def mean(self, last: NDArray[np.float64]) -> float | None:
        """Each value until the next one: a second without events has no row, and is as the one before. Of the time of
        which something is known.
        """
        at = slice(self.first - self.was_standing, None)
        lasted = np.diff(np.append(self.t_s[at].clip(min=self.begin_s), self.end_s))
        values, lasted = last[at][known := ~np.isnan(last[at])], lasted[known]
        return _number(float((values * lasted).sum() / lasted.sum())) if lasted.sum() else None


def _shares(rows: ColumnsByName, name: str) -> NDArray[np.float64]:
    usable = rows["usable_blocks"]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: NDArray[np.float64] = np.where(usable > 0, rows[name] / usable, np.nan)
    return shares


def _number(value: float) -> Any:
    """None for what is not known for all of a stretch."""
    return None if np.isnan(value) else float(value)
