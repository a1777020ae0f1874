"""What a check of the event log found, and what it looked at: plain data, bounded however much is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

KEPT_FAULTS: Final = 10_000
"""Told are all of them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`place`: which row, by what names it in its table. epoch None: of no single epoch."""

    table: str
    source: str
    epoch: int | None
    place: str
    what: str

    def __str__(self) -> str:
        of = f"epoch {self.epoch} of {self.source}" if self.epoch is not None else self.source
        return f"{self.table}: {', '.join(part for part in (of, self.place) if part)}: {self.what}"


def _nothing(_: object) -> None:
    pass


@dataclass(slots=True)
class Verdict:
    """`checked`: how many rows by table, and events. `not_checked`: what could not be, with how many (0: not counted).

    on_fault, on_progress: called with each fault, and now and then with where the check is.
    """

    on_fault: Callable[[Fault], None] = _nothing
    on_progress: Callable[[str], None] = _nothing
    checked: Counter[str] = field(default_factory=Counter)
    not_checked: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    num_faults: int = 0

    def tell(self, fault: Fault) -> None:
        self.num_faults += 1
        if len(self.faults) < KEPT_FAULTS:
            self.faults.append(fault)
        self.on_fault(fault)
