"""What every way to hear of an engine's events has in common, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kvxray_backend.observed.engine_findings import Unreadable
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.ordered_stream import Delivery, Origin

STEPS_A_TURN: Final = 32
"""Taken under the engine's lock at once: who reads waits for no more than these."""

Steps = Sequence[tuple[Origin, Step[Delivery]]]


class Listener(Protocol):
    """One connection to an engine's events, for one thread. `trouble`: why nothing can be heard, empty: nothing is
    known to be wrong. `num_dropped`: batches that came faster than they were understood.
    """

    @property
    def trouble(self) -> str: ...

    @property
    def unreadable(self) -> Unreadable: ...

    @property
    def is_behind(self) -> bool:
        """Whether something was heard that was not handed on yet."""

    @property
    def num_dropped(self) -> int: ...

    def turn(self, wait_s: float) -> None:
        """Takes what has come and does what is due; waits up to `wait_s` for something to come."""

    def wake(self) -> None:
        """No turn waits any more; may be called from another thread."""

    def close(self) -> None:
        """Applies what is held, and lets go of everything."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who takes what is heard. `take`: gets the steps; `advance`: in every turn, whether something came or not;
    `let_go`: in the end.
    """

    take: Callable[[Steps], object]
    advance: Callable[[], object]
    let_go: Callable[[], object]

    def take_in_turns(self, steps: Steps) -> None:
        """Few at a time."""
        for at in range(0, len(steps), STEPS_A_TURN):
            self.take(steps[at : at + STEPS_A_TURN])
