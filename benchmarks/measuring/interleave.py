"""Rates of several variants of one task, measured in turns: on a machine whose speed swings, only what ran in the same
seconds compares. Each round runs every variant once, in an order that rotates; ratios are taken within a round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median

Variant = Callable[[], int]
"""Does a fixed amount of work and returns how many units it was."""


class Rates:
    """Units a second of each variant, round by round."""

    def __init__(self, variants: dict[str, Variant], rounds: int, sample_s: float = 0.03) -> None:
        repeats = {name: self._repeats(variant, sample_s) for name, variant in variants.items()}
        self.rounds: dict[str, list[float]] = {name: [] for name in variants}
        gc.collect()
        gc.freeze()  # what was made for the set-up is nobody's work
        names = list(variants)
        for number in range(rounds):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                self.rounds[name].append(self._rate(variants[name], repeats[name]))
        gc.unfreeze()

    def median(self, name: str) -> float:
        return median(self.rounds[name])

    def ratio(self, name: str, other: str) -> float:
        """Median over the rounds of rate / rate of the other."""
        return median(mine / theirs for mine, theirs in zip(self.rounds[name], self.rounds[other], strict=True))

    @staticmethod
    def _rate(variant: Variant, repeats: int) -> float:
        begun = time.perf_counter()
        units = sum(variant() for _ in range(repeats))
        return units / (time.perf_counter() - begun)

    @classmethod
    def _repeats(cls, variant: Variant, sample_s: float) -> int:
        """How often to run a variant so that a sample takes about `sample_s`; runs it a few times to warm up."""
        units = variant()
        return max(1, round(sample_s * max(cls._rate(variant, 3) for _ in range(3)) / units))
