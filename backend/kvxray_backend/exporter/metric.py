"""What a metric of ours is: its name, what it says, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kvxray_backend.figure import Certainty, Unit

MetricType = Literal["gauge", "counter", "histogram"]
PREFIX: Final = "kvxray_"
# Units that belong into a name, by the word that they have there.
_UNIT_WORDS: Final[dict[str, str]] = {
    "blocks": "blocks",
    "bytes": "bytes",
    "per_second": "per_second",
    "ratio": "ratio",
    "seconds": "seconds",
    "tokens": "tokens",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """`of`: the signal or figure it is told by, empty: neither. certainty None: as each engine tells, see
    `kvxray_figure_info`. parts: its samples have a label `part`, or what else tells them apart.
    """

    name: str
    type: MetricType
    unit: Unit | Literal["info", "count"]
    topic: str
    meaning: str
    certainty: Certainty | None = "exact"
    of: str = ""
    told_by: str = ""
    parts: str = ""

    @property
    def help(self) -> str:
        sure = "see kvxray_figure_info" if self.certainty is None else self.certainty
        told_by = f" Told by {self.told_by}." if self.told_by else ""
        return f"{self.meaning} Certainty: {sure}.{told_by}"


def name_with_unit(name: str, unit: Unit, prefix: str = PREFIX) -> str:
    """Base units at the end, as Prometheus has them."""
    words = name.removesuffix("_s") if unit in ("seconds", "per_second", "bytes") and name.endswith("_s") else name
    if name.endswith("_per_s"):
        return f"{prefix}{words}_second"
    unit_word = _UNIT_WORDS.get(unit, "")
    is_there = not unit_word or unit_word in words.split("_")
    return f"{prefix}{words}" if is_there else f"{prefix}{words}_{unit_word}"
