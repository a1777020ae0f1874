"""Whether a fault happens now: chance by chance, from its seed alone, so that the same run goes wrong the same way."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from kvxray_engine.faults.fault import Fault, find_fault


class Dice:
    """Of one fault. `chances`: how often it could have happened; `happened`: how often it did."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.random = Random(f"{fault.name}.{fault.seed}")
        self.chances = 0
        self.happened = 0

    def falls(self) -> bool:
        """One chance: whether the fault happens at it."""
        self.chances += 1
        if self.chances <= self.fault.after or self.random.random() >= self.fault.rate:
            return False
        self.happened += 1
        return True


def dice_of(faults: Iterable[Fault], name: str) -> Dice | None:
    """Those of the fault of this name, where it was asked for."""
    fault = find_fault(faults, name)
    return None if fault is None else Dice(fault)
