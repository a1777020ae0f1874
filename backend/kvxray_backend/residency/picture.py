"""One look at what is cached: the columns, and what follows from them, made when it is first asked for and once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kvxray_backend.residency.chain_order import ChainOrder, chain_order
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.measures import Reach, unreachable_of

T = TypeVar("T")


class ResidencyPicture:
    """Nobody changes it, so that everybody who asks may share it. `cost_s`: CPU time that it took so far."""

    def __init__(self, columns: ResidencyColumns) -> None:
        self.columns = columns
        self.cost_s = 0.0

    @cached_property
    def order(self) -> ChainOrder:
        return self._timed(chain_order)

    @cached_property
    def _reached(self) -> tuple[NDArray[np.bool_], dict[int, Reach]]:
        return self._timed(unreachable_of)

    def _timed(self, make: Callable[[ResidencyColumns], T]) -> T:
        began = time.thread_time()
        made = make(self.columns)
        self.cost_s += time.thread_time() - began
        return made

    @property
    def is_unreachable(self) -> NDArray[np.bool_]:
        """Of each entry: whether no prompt can reach it any more."""
        return self._reached[0]

    @property
    def reach(self) -> dict[int, Reach]:
        """By place."""
        return self._reached[1]
