"""What goes wrong when a request ends: blocks that are kept, held by somebody else from then on, or given back twice.

Each fault says which blocks stay behind, does something before the rest is given back, or after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvxray_engine.clock import Clock
from kvxray_engine.faults.dice import Dice
from kvxray_engine.request import Request
from kvxray_engine.stream.schema import Cause, Name

if TYPE_CHECKING:
    from kvxray_engine.faults.faulty_manager import FaultyManager
    from kvxray_engine.faults.faulty_pool import FaultyPool

LEASE_NS: Final = 10_000_000_000
"""Time for a transfer that never comes."""


class EndingFault:
    """One fault of endings. Does nothing, where not told otherwise."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def kept(self, manager: FaultyManager, request: Request, cause: Cause) -> list[int]:
        """Blocks of its table that the request does not let go of."""
        return []

    def before(self, manager: FaultyManager, request: Request, cause: Cause) -> None:
        """While the request still holds its blocks."""

    def after(self, manager: FaultyManager, request: Request, blocks: list[int], cause: Cause) -> None:
        """`blocks`: its table as it was, all let go of."""


class KeptAll(EndingFault):
    """Requests that end for one cause keep everything."""

    def __init__(self, dice: Dice, cause: Cause) -> None:
        super().__init__(dice)
        self.cause = cause

    def kept(self, manager: FaultyManager, request: Request, cause: Cause) -> list[int]:
        if cause is not self.cause or not self.dice.falls():
            return []
        self.dice.tell(request.ordinal, request.block_table)
        return request.block_table


class KeptShared(EndingFault):
    """Finished requests let go of their own blocks only."""

    def kept(self, manager: FaultyManager, request: Request, cause: Cause) -> list[int]:
        shared = [block for block in request.block_table if manager.pool.ref_cnt[block] > 1]
        if cause is not Cause.finish or not shared or not self.dice.falls():
            return []
        self.dice.tell(request.ordinal, shared)
        return shared


class HeldByAnother(EndingFault):
    """Somebody who is no request holds the full blocks of an answer from then on: a pin, or a lease."""

    def __init__(self, dice: Dice, cause: Cause, clock: Clock) -> None:
        super().__init__(dice)
        self.cause = cause
        self.clock = clock

    def before(self, manager: FaultyManager, request: Request, cause: Cause) -> None:
        full = request.block_table[: request.num_computed_tokens // manager.pool.block_size]
        if cause is Cause.finish and full and self.dice.falls():
            self.dice.tell(manager.give_to(self._name(), full, self.cause), full)

    def _name(self) -> Name:
        deadline = self.clock.wall_ns() + LEASE_NS if self.cause is Cause.lease else 0
        return Name(id=f"{self.cause.name}-{self.dice.happened}", kind=self.cause.name, deadline=deadline)


class PoolFault(EndingFault):
    """One that needs a pool that forgives."""

    def __init__(self, dice: Dice, pool: FaultyPool) -> None:
        super().__init__(dice)
        self.pool = pool


class FreedTwice(PoolFault):
    """A request's own blocks are freed once more."""

    def after(self, manager: FaultyManager, request: Request, blocks: list[int], cause: Cause) -> None:
        own = [block for block in blocks if not self.pool.ref_cnt[block]]
        if own and self.dice.falls():
            self.dice.tell(request.ordinal, own)
            self.pool.free_again(own[::-1], request.ordinal, cause)


class ReleasedTwice(PoolFault):
    """One block that others hold loses one of their references: the last of them takes its count below zero."""

    def after(self, manager: FaultyManager, request: Request, blocks: list[int], cause: Cause) -> None:
        shared = [block for block in blocks if self.pool.ref_cnt[block]]
        if shared and self.dice.falls():
            block = self.dice.random.choice(shared)
            self.dice.tell(request.ordinal, (block,))
            self.pool.free([block], request.ordinal, cause)
