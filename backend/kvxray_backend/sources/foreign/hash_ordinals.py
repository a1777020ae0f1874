"""Ordinals of the hashes of one epoch: each distinct hash gets the next one when it is first mentioned.

Bounded: after every generation of new hashes, those are forgotten that are nowhere any more and were not mentioned for
a whole generation. One that comes back after that gets a new ordinal. The fold forgets by the same rule, from the same
message on, so that both always agree on what an ordinal stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_hashes import padded
from kvxray_engine.stream.residency_rows import Bools
from kvxray_engine.stream.residency_state import GENERATION

from kvxray_backend.sources.foreign.told import Hash

_EMPTY_WIDTH: Final = 8


class HashOrdinals:
    """`width`: bytes a hash, the widest mentioned so far. `next`: the next ordinal."""

    def __init__(self, are_gone: Callable[[U4], Bools], generation_size: int = GENERATION) -> None:
        """are_gone: which of these ordinals are nowhere, after all that was told so far."""
        self.next = 0
        self.width = _EMPTY_WIDTH
        self._are_gone = are_gone
        self._generation_size = generation_size
        self._generation = 0
        self._mentioned: dict[Hash, int] = {}
        """In this generation."""
        self._older: dict[Hash, int] = {}
        self._fresh: list[Hash] = []

    def __len__(self) -> int:
        return len(self._mentioned) + len(self._older)

    def begin_message(self) -> None:
        """Before the first hash of each message."""
        generation = self.next // self._generation_size
        if generation == self._generation:
            return
        if generation > self._generation + 1:
            self._older.update(self._mentioned)
            self._mentioned = {}
        self._forget()
        self._older.update(self._mentioned)
        self._mentioned, self._generation = {}, generation

    def ordinal_of(self, block_hash: Hash) -> int:
        """The hash's ordinal, the next one where it is new."""
        ordinal = self._mentioned.get(block_hash)
        if ordinal is not None:
            return ordinal
        ordinal = self._older.pop(block_hash, None)
        if ordinal is None:
            ordinal = self.next
            self.next += 1
            self._fresh.append(block_hash)
        self._mentioned[block_hash] = ordinal
        return ordinal

    def take_fresh(self) -> bytes:
        """The bytes of the ordinals given since the last call, in order, `width` bytes each."""
        fresh, self._fresh = self._fresh, []
        self.width = max([self.width, *map(len, fresh)])
        return b"".join([one if len(one) == self.width else padded(one, len(one), self.width) for one in fresh])

    def _forget(self) -> None:
        ordinals = np.fromiter(self._older.values(), np.uint32, len(self._older))
        gone = self._are_gone(ordinals).tolist()
        self._older = {one: at for (one, at), is_gone in zip(self._older.items(), gone, strict=True) if not is_gone}
