"""One signal divided by another, with what it was divided of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """`value` = numerator / denominator, both of the same time; `seconds`: how long that is, None for all there was."""

    value: float
    numerator: float
    denominator: float
    seconds: float | None
