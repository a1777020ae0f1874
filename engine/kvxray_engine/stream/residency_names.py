"""In whose name hashes were stored (session, LoRA, salt), by ordinal; what nothing names any more is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.schema import NO_ORDINAL, Name

NAMES_IN_USE: Final = 65_536
"""A source gives a combination a new ordinal after so many others: one older than that is told no more."""


class NamesTold:
    """`next_ordinal`: that of the next name."""

    def __init__(self) -> None:
        self.names: dict[int, Name] = {}
        self.next_ordinal = 0
        self._thin_at = 4 * NAMES_IN_USE

    def copy(self) -> NamesTold:
        made = NamesTold()
        made.names, made.next_ordinal, made._thin_at = dict(self.names), self.next_ordinal, self._thin_at
        return made

    def add(self, first: int, names: Iterable[Name]) -> None:
        """Names from ordinal `first` on."""
        for ordinal, name in enumerate(names, first):
            self.names[ordinal] = name
            self.next_ordinal = max(self.next_ordinal, ordinal + 1)

    def thin(self, in_use: Callable[[], U4]) -> None:
        """Forgets what is neither recent nor in use, once enough has gathered; `in_use` gives the ordinals."""
        if len(self.names) >= self._thin_at:
            kept = set(in_use().tolist())
            recent = self.next_ordinal - NAMES_IN_USE
            self.names = {o: name for o, name in self.names.items() if o >= recent or o in kept}
            self._thin_at = max(4 * NAMES_IN_USE, 2 * len(self.names))

    def differ(self, before: U4, after: U4) -> NDArray[np.bool_]:
        """Which of these pairs of ordinals name two LoRAs, or two salts. What one of them does not tell is no
        difference: engines tell a salt with the first block of a chain only.
        """
        found = np.zeros(len(before), bool)
        asked = np.flatnonzero((before != after) & (before != NO_ORDINAL) & (after != NO_ORDINAL))
        for index in asked.tolist():
            one, other = self.names.get(int(before[index])), self.names.get(int(after[index]))
            if one is not None and other is not None:
                found[index] = _are_two(one.lora, other.lora) or _are_two(one.salt, other.salt)
        return found


def _are_two(one: str, other: str) -> bool:
    return bool(one and other and one != other)
