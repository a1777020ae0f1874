"""One look at what is cached: the columns, and what follows from them, made when it is first asked for and once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvxray_backend.residency.chain_order import ChainOrder, chain_order
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.measures import Reach, unreachable_of


class ResidencyPicture:
    """Nobody changes it, so that everybody who asks may share it."""

    def __init__(self, columns: ResidencyColumns) -> None:
        self.columns = columns

    @cached_property
    def order(self) -> ChainOrder:
        return chain_order(self.columns)

    @cached_property
    def _reached(self) -> tuple[NDArray[np.bool_], dict[int, Reach]]:
        return unreachable_of(self.columns)

    @property
    def is_unreachable(self) -> NDArray[np.bool_]:
        """Of each entry: whether no prompt can reach it any more."""
        return self._reached[0]

    @property
    def reach(self) -> dict[int, Reach]:
        """By place."""
        return self._reached[1]
