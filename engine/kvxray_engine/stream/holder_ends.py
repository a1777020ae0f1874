"""Since when a holder has no right to its blocks any more: the one rule behind every count and every name of a leak.

A request (of a sequence: the request it belongs to) loses it when it has finished, been aborted or failed, a lease at
its deadline; both with a grace, 3 seconds and for requests 2 steps, because the step that ends a request may be told
before the release. An engine with nothing left to do takes no more steps, so then time alone decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import RequestStatus

GRACE_NS: Final = 3_000_000_000
GRACE_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class EngineTime:
    """What the engine said last: its wall clock, its step, and whether no request is left to work on."""

    t_ns: int
    step: int
    is_idle: bool

    @classmethod
    def folded(cls, block_map: BlockMap) -> Self:
        """As far as the events of a fold tell: heartbeats may have told more since."""
        return cls(block_map.t_ns, block_map.step, not block_map.requests.count(RequestStatus.running))


@dataclass(frozen=True, slots=True)
class HolderEnd:
    """When a holder's right ended. `status`: how its request did; None: its deadline passed."""

    ended_ns: int
    status: RequestStatus | None


def end_of(requests: RequestTable, holder: int, now: EngineTime, *, is_past_grace: bool = False) -> HolderEnd | None:
    """None while the holder has its right, or within the grace.

    is_past_grace: that of its request is known to be over.
    """
    name = requests.names.get(holder)
    if name is not None and name.deadline > 0:
        return HolderEnd(name.deadline, None) if now.t_ns > name.deadline + GRACE_NS else None
    end = requests.end(holder)
    if end is None and name is not None and name.parent >= 0:
        end = requests.end(name.parent)
    if end is None:
        return None
    status, ended_ns, ended_step = end
    if not is_past_grace:
        is_within_steps = not now.is_idle and now.step - ended_step < GRACE_STEPS
        # An end well ahead of now was told by a clock that was set back since: then steps alone decide.
        if is_within_steps or abs(now.t_ns - ended_ns) <= GRACE_NS:
            return None
    return HolderEnd(ended_ns, status)


def is_no_request(requests: RequestTable, holder: int) -> bool:
    """Whether a holder may be over without having ended: a sequence, pin, lease or transfer, or with a deadline."""
    name = requests.names.get(holder)
    return name is not None and (name.kind != "request" or name.deadline > 0)
