"""The figures of a source, computed from its folded state: pure functions of what they are given.

used = (active + shared) / usable; cached, shared likewise; internal fragmentation = empty slots / slots of blocks with
references; hit rate = prefix tokens hit / queried over 60 s of the events' time; rates over 10 s. Where nothing is
known, or there is no data, a figure has no value; where part of the blocks is unknown, neither has a share of all of
them, and what is counted is derived from the rest.

An open finding taints what it spoils, which is derived then and not exact: a gap, or a join without a snapshot, what
rests on events, and on blocks or holders as long as some are unknown; a contradiction (audit) what rests on blocks;
silence (stale) everything, since all of it is as it was when the engine was last heard.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import BlockState, RequestStatus
from numpy.typing import NDArray

from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.engine_clock import SET_BACK_NS
from kvxray_backend.figure import Certainty, Figure, Unit
from kvxray_backend.moments import Point
from kvxray_backend.windows import HIT_WINDOW_NS, RATE_WINDOW_NS, EventWindows

# Which kinds of open findings spoil which figures.
SPOILS_BLOCKS: Final = frozenset({"audit", "ref_mismatch", "stale"})
# The same while part of them, or who holds them, is unknown.
SPOILS_UNKNOWN_BLOCKS: Final = SPOILS_BLOCKS | {"gap", "no_snapshot"}
_SPOILS_EVENTS: Final = frozenset({"gap", "no_snapshot", "stale"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What figures are made from, all of one moment. `now_ns`: engine time. `leaked`: blocks with a leaked hold,
    `leaked_only`: those without any other.
    """

    block_map: BlockMap
    windows: EventWindows
    epoch: int
    since_seq: int
    now_ns: int
    leaked: int
    leaked_only: int = 0
    findings: tuple[Finding, ...] = ()
    lives: BlockLives | None = None

    @property
    def is_partly_unknown(self) -> bool:
        return self.block_map.counts()[BlockState.unknown] > 0

    def figure(self, value: float | int | None, unit: Unit, spoils: frozenset[str], certainty: Certainty) -> Figure:
        """certainty: what it is unless a finding spoils it."""
        taints = tuple(finding.id for finding in self.findings if finding.kind in spoils)
        certainty = "derived" if taints else certainty
        since = str(Point(self.epoch, self.since_seq))
        return Figure(value=value, unit=unit, certainty=certainty, since_seq=since, taints=taints)

    def of_blocks(self, value: float | int | None, unit: Unit = "ratio") -> Figure:
        """A figure that rests on the blocks: no value while none of them is known."""
        counts = self.block_map.counts()
        if counts[BlockState.unknown] >= self.block_map.descriptor.usable_blocks:
            value = None
        if self.is_partly_unknown:
            return self.figure(value, unit, SPOILS_UNKNOWN_BLOCKS, "derived")
        return self.figure(value, unit, SPOILS_BLOCKS, "exact")

    def share_of_blocks(self, blocks: int) -> Figure:
        """So many of the usable blocks, as a ratio: not known while any block is not, as it may be one of them."""
        usable = self.block_map.descriptor.usable_blocks
        return self.of_blocks(blocks / usable if usable and not self.is_partly_unknown else None)

    def of_holders(self, value: float | int | None, unit: Unit) -> Figure:
        """A figure that rests on who holds what: after a gap holders are known again only from a snapshot on."""
        if self.block_map.holders_known:
            return self.of_blocks(value, unit)
        # None seen, with holders unknown, says nothing.
        return self.figure(value or None, unit, SPOILS_UNKNOWN_BLOCKS, "derived")

    def of_events(self, value: float | int | None, unit: Unit = "per_second", certainty: Certainty = "exact") -> Figure:
        """A figure that rests on the events of a window."""
        return self.figure(value, unit, _SPOILS_EVENTS, certainty)

    def of_requests(self, value: int) -> Figure:
        """A count of requests: like holders, all of them are known from a snapshot on only."""
        if self.block_map.holders_known:
            return self.figure(value, "requests", _SPOILS_EVENTS, "exact")
        return self.figure(value or None, "requests", _SPOILS_EVENTS, "derived")


def state_counts(reading: Reading) -> dict[str, Figure]:
    """Usable blocks in each state. How many are unknown is always known."""
    counts = reading.block_map.counts()
    figures = {state.name: reading.of_blocks(counts[state], "blocks") for state in BlockState}
    figures["unknown"] = reading.figure(counts[BlockState.unknown], "blocks", frozenset({"stale"}), "exact")
    return figures


def figures_of(reading: Reading) -> dict[str, Figure]:
    """Every figure of the summary, by the name it has in the API."""
    return {**_block_figures(reading), **_rates(reading), **_request_figures(reading)}


def _block_figures(reading: Reading) -> dict[str, Figure]:
    counts = reading.block_map.counts()
    held = counts[BlockState.active] + counts[BlockState.shared]
    return {
        "used": reading.share_of_blocks(held),
        "cached": reading.share_of_blocks(counts[BlockState.cached]),
        "shared": reading.share_of_blocks(counts[BlockState.shared]),
        "internal_fragmentation": reading.of_blocks(_internal_fragmentation(reading.block_map)),
        "leaked": reading.of_holders(reading.leaked, "blocks"),
        "leaked_only": reading.of_holders(reading.leaked_only, "blocks"),
    }


def _internal_fragmentation(block_map: BlockMap) -> float | None:
    """Empty slots / slots of blocks with references; None when there are none."""
    held = (block_map.state == BlockState.active) | (block_map.state == BlockState.shared)
    if block_map.descriptor.null_block >= 0:
        held[block_map.descriptor.null_block] = False
    slots = int(np.count_nonzero(held)) * block_map.descriptor.block_size
    if not slots:
        return None
    return 1 - int(block_map.slots[held].sum(dtype=np.int64)) / slots


def _rates(reading: Reading) -> dict[str, Figure]:
    rated = reading.windows.since(RATE_WINDOW_NS, reading.now_ns)
    looked_up = reading.windows.since(HIT_WINDOW_NS, reading.now_ns)

    def rate(name: str) -> Figure:
        return reading.of_events(getattr(rated[0], name) / rated[1] if rated else None)

    hit_rate = looked_up[0].hit / looked_up[0].queried if looked_up and looked_up[0].queried else None
    return {
        "hit_rate": reading.of_events(hit_rate, "ratio"),
        "evictions_per_s": rate("evictions"),
        "allocations_per_s": rate("allocations"),
        "preemptions_per_s": rate("preemptions"),
        "tokens_per_s": rate("tokens"),
    }


def _request_figures(reading: Reading) -> dict[str, Figure]:
    requests = reading.block_map.requests
    waiting = requests.count(RequestStatus.waiting, RequestStatus.preempted)
    return {
        "ttft_p50_s": reading.of_events(_ttft_p50(reading), "seconds"),
        "running": reading.of_requests(requests.count(RequestStatus.running)),
        "waiting": reading.of_requests(waiting),
    }


def first_tokens(rows: NDArray[np.void], now_ns: int) -> NDArray[np.void]:
    """Those whose arrival was seen and whose first token came in the last 60 s; none that saw the clock set back."""
    told_ns = rows["first_token_ns"]
    is_recent = (told_ns > max(now_ns - HIT_WINDOW_NS, 0)) & (told_ns <= now_ns + SET_BACK_NS)
    return rows[is_recent & (rows["arrived_ns"] > 0) & (rows["arrived_ns"] <= told_ns)]


def _ttft_p50(reading: Reading) -> float | None:
    """Median seconds from arrival to first token, of the first tokens of the last 60 s."""
    rows = reading.block_map.requests.rows
    recent = first_tokens(rows, reading.now_ns)
    if not len(recent):
        return None
    return float(median(((recent["first_token_ns"] - recent["arrived_ns"]) / 1e9).tolist()))
