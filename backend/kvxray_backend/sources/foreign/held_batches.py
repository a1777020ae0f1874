"""Batches that wait for others before them: by number, with their sizes and since when they wait."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Generic

from kvxray_backend.sources.foreign.batch_steps import T


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """`num_bytes`: of the payload; `heard_ns`: monotonic."""

    batch: T
    num_bytes: int
    heard_ns: int


class HeldBatches(Generic[T]):
    """Invariant: `num_bytes` is the sum over what is held."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._held: dict[int, Held[T]] = {}
        self._order: list[int] = []  # a heap of all numbers held

    def __len__(self) -> int:
        return len(self._held)

    def get(self, seq: int) -> Held[T] | None:
        return self._held.get(seq)

    @property
    def first_seq(self) -> int | None:
        return self._order[0] if self._order else None

    def add(self, seq: int, held: Held[T]) -> None:
        assert seq not in self._held, "a batch is held twice"
        self._held[seq] = held
        self.num_bytes += held.num_bytes
        heapq.heappush(self._order, seq)

    def pop_first(self) -> tuple[int, Held[T]]:
        seq = heapq.heappop(self._order)
        held = self._held.pop(seq)
        self.num_bytes -= held.num_bytes
        return seq, held

    def pop_all(self) -> list[tuple[int, Held[T]]]:
        """In order of their numbers."""
        return [self.pop_first() for _ in range(len(self._held))]

    def check_integrity(self) -> None:
        """Asserts the invariant, and that the order knows exactly what is held."""
        assert self.num_bytes == sum(held.num_bytes for held in self._held.values()), "held bytes are miscounted"
        assert sorted(self._order) == sorted(self._held), "the order and what is held differ"
        assert self.first_seq == min(self._held, default=None), "the order is broken"
