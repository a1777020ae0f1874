"""Pins that nobody uses: holders that are neither requests nor leases, and whose blocks serve no request. Pure.

A pin may be right for long: a system prompt that is to stay. What tells it from a forgotten one is use. It is stuck
once some of its blocks are held by such holders alone, nothing has happened to them for five minutes of the engine's
time, and fifty requests came meanwhile of which none wanted them: an idle engine proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import Name
from numpy.typing import NDArray

from kvxray_backend.analysis.ended_holders import are_among
from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects
from kvxray_backend.analysis.leaks import by_holder, held_only
from kvxray_backend.analysis.stream_health import Place

IDLE_NS: Final = 300_000_000_000
LEAST_REQUESTS: Final = 50
IDLE_S: Final = "idle_s"
REQUESTS_SINCE: Final = "requests_since"
"""Numbers that grow with time alone."""
_KINDS: Final = ("pin", "transfer", "lease")


@dataclass(frozen=True, slots=True)
class StuckPin:
    """`blocks`: held by such holders alone and used by nobody; `num_held`: with those that somebody uses. `since_ns`:
    when any of `blocks` was last used, or pinned. `requests_since`: how many came since.
    """

    holder: int
    name: Name
    since_ns: int
    blocks: U4
    num_held: int
    requests_since: int

    def finding(self, place: Place, now_ns: int, bytes_per_block: int) -> Finding:
        num = len(self.blocks)
        what = f"{num:,} block{'' if num == 1 else 's'}"
        part = f" of its {self.num_held:,}" if self.num_held > num else ""
        idle_s = (now_ns - self.since_ns) / 1e9
        who = f"{self.name.kind.capitalize()} {self.name.id}"
        escaped = who.replace("{", "{{").replace("}", "}}")
        size = {"bytes": num * bytes_per_block} if bytes_per_block else {}
        return place.finding(
            "stuck_pin",
            "warning",
            f"{who} keeps {what}{part} that nobody has used for {idle_s:,.0f} s, "
            f"in which {self.requests_since:,} requests came.",
            self.holder,
            time_ns=self.since_ns,
            subjects=Subjects(blocks=tuple(self.blocks[:MAX_SUBJECTS].tolist()), requests=(self.name.id,)),
            numbers={"blocks": num, "held": self.num_held, **size}
            | {IDLE_S: round(idle_s, 3), REQUESTS_SINCE: self.requests_since},
            certainty="derived",
            mark=f"{who} keeps blocks that nobody uses from now on.",
            sentence_when_over=f"{escaped} kept {what} that nobody used for {{lasted}}.",
            sentence_when_engine_ended=f"{escaped} kept {what} that nobody used until the engine ended.",
        )


def find_stuck_pins(block_map: BlockMap, now: EngineTime) -> list[StuckPin]:
    """Those at this moment, in order of holder. Costs a look at the names, and where any is a pin's one pass over the
    holds.
    """
    pins = [one for one, name in block_map.requests.names.items() if _is_pin(name)]
    if not pins:
        return []
    blocks, holders = block_map.holds()
    theirs = are_among(holders, np.sort(np.array(pins, np.uint32))) & (blocks != block_map.descriptor.null_block)
    blocks, holders = blocks[theirs], holders[theirs]
    held, alone = by_holder(blocks, holders), by_holder(*held_only(block_map, blocks, holders))
    arrived = np.sort(block_map.requests.rows["arrived_ns"])
    found = (_judge(block_map, now, arrived, holder, held[holder], alone[holder]) for holder in sorted(alone))
    return [one for one in found if one is not None]


def _judge(
    block_map: BlockMap, now: EngineTime, arrived: NDArray[np.int64], holder: int, held: U4, alone: U4
) -> StuckPin | None:
    last = block_map.t_last[alone]
    is_idle = (last > 0) & (last < now.t_ns - IDLE_NS)
    if not is_idle.any():
        return None
    since_ns = int(last[is_idle].max())
    requests_since = len(arrived) - int(np.searchsorted(arrived, since_ns, "right"))
    if requests_since < LEAST_REQUESTS:
        return None
    return StuckPin(holder, block_map.requests.names[holder], since_ns, alone[is_idle], len(held), requests_since)


def _is_pin(name: Name) -> bool:
    """A deadline makes it a lease, a parent one of a request's holders: both end by themselves, or leak."""
    return name.kind in _KINDS and not name.deadline and name.parent < 0
