"""Faults on purpose by their names: what each does, how often, and how a command line asks for one.

Nothing here makes a fault happen; what is read here decides which faulty object takes the place of a right one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from kvxray_engine.errors import UserError


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One that can be asked for. `says`: what goes wrong. `chance`: what `rate` is a share of."""

    says: str
    chance: str
    rate: float  # unless told otherwise


FAULTS: Final = MappingProxyType(
    {
        "leak-on-abort": FaultKind("cancelled requests keep their blocks", "cancelled requests with blocks", 1.0),
        "leak-on-error": FaultKind(
            "requests fail while they are put away, after their answers, and keep their blocks", "answers", 0.05
        ),
        "forgotten-dereference": FaultKind(
            "finished requests let go of their own blocks and not of those they share", "finished that share", 0.1
        ),
        "double-free": FaultKind("ended requests free their own blocks twice", "ended requests", 0.05),
        "ref-underflow": FaultKind("ended requests let go twice of a block that others hold", "ended that share", 0.02),
        "stale-hash": FaultKind(
            "a block that is given out anew stays in the prefix cache under its old hash", "evictions", 0.05
        ),
        "stuck-pin": FaultKind("somebody pins the blocks of an answer and never lets go", "answers", 0.05),
        "expired-lease": FaultKind(
            "blocks of an answer are leased to a transfer that never comes, and kept past the deadline", "answers", 0.05
        ),
        "lost-messages": FaultKind("messages are neither sent nor kept for replay", "messages", 0.01),
        "reordered-messages": FaultKind("messages are sent after the next one", "messages", 0.05),
        "duplicated-messages": FaultKind("messages are sent twice", "messages", 0.05),
        "frozen-publisher": FaultKind("the publisher stands still for 10 seconds", "messages", 0.005),
    }
)
"""By name, as `--fault` takes them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One that was asked for. `rate`: the share of its chances at which it happens, above 0, at most 1. `after`: so
    many chances pass first. Raises UserError for a name, rate or number that makes no sense."""

    name: str
    rate: float = field(default=0.0)  # 0 = as its kind has it
    seed: int = 0
    after: int = 0

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise UserError(f"There is no fault called {self.name!r}: choose one of {', '.join(FAULTS)}.")
        if not self.rate:
            object.__setattr__(self, "rate", FAULTS[self.name].rate)
        if not 0 < self.rate <= 1:
            raise UserError(f"The rate of {self.name} is a share of its chances: above 0, at most 1.")
        if self.seed < 0 or self.after < 0:
            raise UserError(f"seed and after of {self.name} are whole numbers from 0.")

    def __str__(self) -> str:
        """As `--fault` takes it."""
        return f"{self.name}:rate={self.rate!r},seed={self.seed},after={self.after}"

    @property
    def notice(self) -> str:
        """What whoever starts the engine is told."""
        return f"a fault is on, {self.name}: {FAULTS[self.name].says}."


def parse_fault(text: str) -> Fault:
    """`NAME` or `NAME:rate=0.1,seed=1,after=20`, with any of the three. Raises UserError."""
    name, _, rest = text.partition(":")
    told: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if key not in ("rate", "seed", "after") or not equals or key in told:
            raise UserError(f"--fault {text}: write NAME:rate=0.1,seed=1,after=20, with any of the three, each once.")
        told[key] = value
    try:
        rate = float(told.get("rate", 0.0))
        seed, after = int(told.get("seed", 0)), int(told.get("after", 0))
    except ValueError as error:
        raise UserError(f"--fault {text}: rate is a share such as 0.1, seed and after are whole numbers.") from error
    if "rate" in told and not rate > 0:  # neither 0, which stands for the usual rate, nor what is no number
        raise UserError(f"The rate of {name} is a share of its chances: above 0, at most 1.")
    return Fault(name, rate, seed, after)


def parse_faults(texts: Iterable[str]) -> tuple[Fault, ...]:
    """Faults as a command line names them, each at most once. Raises UserError."""
    faults = tuple(parse_fault(text) for text in texts)
    names = [fault.name for fault in faults]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"The fault {name} is asked for twice: ask once, with one rate.")
    return faults


def find_fault(faults: Iterable[Fault], name: str) -> Fault | None:
    """The one of this name, where it was asked for."""
    return next((fault for fault in faults if fault.name == name), None)
