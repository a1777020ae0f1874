"""Whether a fault happens now: chance by chance, from its seed alone, so that the same run goes wrong the same way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from kvxray_engine.faults.fault import Fault, find_fault
from kvxray_engine.stream.schema import NO_ORDINAL

MAX_KEPT: Final = 10_000
"""Deeds; the earliest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done at one chance: to whose blocks, or to which message (its number)."""

    holder: int = NO_ORDINAL
    blocks: tuple[int, ...] = ()
    message: int = -1


class Dice:
    """Of one fault. `chances`: how often it could have happened; `happened`: how often it did; `deeds`: what was done
    then, in order, as those tell it who ask the dice.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.random = Random(f"{fault.name}.{fault.seed}")
        self.chances = 0
        self.happened = 0
        self.deeds: deque[Deed] = deque(maxlen=MAX_KEPT)

    def falls(self) -> bool:
        """One chance: whether the fault happens at it."""
        self.chances += 1
        if self.chances <= self.fault.after or self.random.random() >= self.fault.rate:
            return False
        self.happened += 1
        return True

    def tell(self, holder: int = NO_ORDINAL, blocks: Iterable[int] = (), message: int = -1) -> None:
        """What the fault did as the dice fell."""
        self.deeds.append(Deed(holder, tuple(blocks), message))


def dice_of(faults: Iterable[Fault], name: str) -> Dice | None:
    """Those of the fault of this name, where it was asked for."""
    fault = find_fault(faults, name)
    return None if fault is None else Dice(fault)
