"""The table of requests, out of the folded state: chosen and counted with arrays, only what is shown becomes objects.

Call with the state's lock held.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.request_table import RequestView as FoldedRequest
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, BlockState, RequestStatus
from numpy.typing import NDArray

from kvxray_backend.api_types import RequestRow, RequestsView, RequestView
from kvxray_backend.figure import Figure
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import iso_time_or_none
from kvxray_backend.told_findings import about_request

# The order of the table: what needs a look comes first.
_RANK: Final = {
    RequestStatus.running: 1,
    RequestStatus.preempted: 2,
    RequestStatus.waiting: 3,
    RequestStatus.failed: 4,
    RequestStatus.aborted: 4,
    RequestStatus.finished: 4,
}
_RANKS: Final = np.array([_RANK.get(status, 9) for status in sorted(RequestStatus)], np.int64)


def requests_view(live: LiveState, limit: int, status: RequestStatus | None = None) -> RequestsView:
    """The first `limit` requests: those that leak, then running, preempted, waiting, then ended, the newest of each
    first.
    """
    block_map = live.block_map
    if block_map is None:
        return RequestsView(requests=[], total=0)
    rows = block_map.requests.rows
    wanted = rows["status"] != RequestStatus.unknown if status is None else rows["status"] == status
    at = np.flatnonzero(wanted)
    ordinals = rows["ordinal"][at]
    leaking = np.isin(ordinals, [leak.holder for leak in live.leaks])
    rank = np.where(leaking, 0, _RANKS[rows["status"][at]])
    chosen = ordinals[np.lexsort((-ordinals.astype(np.int64), rank))[:limit]]
    return RequestsView(requests=_rows(live, block_map, chosen.tolist()), total=len(at))


def request_view(live: LiveState, request_id: str) -> RequestView | None:
    """The newest request of that id, with the blocks it holds; None when there is none."""
    block_map = live.block_map
    found = block_map.requests.find(request_id) if block_map is not None else None
    if block_map is None or found is None:
        return None
    row = _rows(live, block_map, [found.ordinal])[0]
    table = in_chain_order(block_map, block_map.blocks_of(found.ordinal))
    findings = live.open_findings.tell(about_request(live.open_findings.found, found.name.id))
    return RequestView(**dict(row), block_table=table, findings=findings, **_phases(found))


def _phases(request: FoldedRequest) -> dict[str, Any]:
    """How long it waited, was prefilled and decoded. A preempted one was scheduled more than once, and only the last
    time is kept: how the time to its first token was shared out is not known then.
    """
    scheduled = 0 if request.preemptions else request.scheduled_ns
    return {
        "queried_tokens": request.queried_tokens if request.arrived_ns or request.queried_tokens else None,
        "waiting_s": _between(request.arrived_ns, scheduled),
        "prefill_s": _between(scheduled, request.first_token_ns),
        "decode_s": _between(request.first_token_ns, request.last_token_ns),
    }


def _between(start_ns: int, end_ns: int) -> Figure:
    """Seconds between two times, of which either may be unknown (0)."""
    known = start_ns and end_ns >= start_ns
    return Figure(value=(end_ns - start_ns) / 1e9 if known else None, unit="seconds")


def in_chain_order(block_map: BlockMap, blocks: list[int]) -> list[int]:
    """Blocks of one request in the order of its block table, as far as the chain of hashes tells it.

    A block with a hash follows the one that carries its parent's hash; what carries none comes after, in order of
    allocation.
    """
    by_parent = {int(block_map.parent_ordinal[block]): block for block in blocks if _has_hash(block_map, block)}
    ordered: list[int] = []
    parent = int(NO_ORDINAL)
    while parent in by_parent:
        block = by_parent.pop(parent)
        ordered.append(block)
        parent = int(block_map.hash_ordinal[block])
    placed = set(ordered)
    rest = [block for block in blocks if block not in placed]
    return ordered + sorted(rest, key=lambda block: (int(block_map.t_alloc[block]), block))


def _has_hash(block_map: BlockMap, block: int) -> bool:
    return int(block_map.hash_ordinal[block]) < UNKNOWN_U4


def _rows(live: LiveState, block_map: BlockMap, ordinals: list[int]) -> list[RequestRow]:
    blocks, holders = block_map.holds()
    # A pool has a million holds, a page shows a few dozen requests.
    theirs = np.flatnonzero(np.isin(holders, np.array(ordinals, np.uint32)))
    blocks, holders = blocks[theirs], holders[theirs]
    held = count_by_holder(holders, ordinals)
    shared = count_by_holder(holders[block_map.state[blocks] == BlockState.shared], ordinals)
    leaked = {leak.holder: len(leak.blocks) for leak in live.leaks}
    found = (block_map.requests.get(ordinal) for ordinal in ordinals)
    return [
        _row(request, *(_seen(block_map, int(num)) for num in (held[at], shared[at], leaked.get(request.ordinal, 0))))
        for at, request in enumerate(found)
        if request is not None
    ]


def _seen(block_map: BlockMap, holds: int) -> int | None:
    """After a gap holders are known again only from a snapshot on: until then none seen says nothing."""
    return holds if block_map.holders_known else holds or None


def _row(request: FoldedRequest, blocks: int | None, shared: int | None, leaked: int | None) -> RequestRow:
    return RequestRow(
        request_id=request.name.id,
        ordinal=request.ordinal,
        status=request.status.name,
        prompt_tokens=_told(request, request.prompt_tokens),
        output_tokens=_told(request, request.output_tokens),
        hit_tokens=request.hit_tokens if request.arrived_ns or request.queried_tokens else None,
        blocks=blocks,
        shared_blocks=shared,
        leaked_blocks=leaked,
        arrived_at=iso_time_or_none(request.arrived_ns),
        ended_at=iso_time_or_none(request.ended_ns),
        ttft_s=Figure(value=request.ttft_s, unit="seconds"),
        preemptions=request.preemptions,
    )


def _told(request: FoldedRequest, tokens: int) -> int | None:
    """Tokens that arrival and end of a request tell; of one that was there before the join, none seen says nothing."""
    return tokens if tokens or request.arrived_ns or request.ended_ns else None


def count_by_holder(holders: NDArray[np.uint32], ordinals: list[int]) -> NDArray[np.int64]:
    """How often each of these ordinals occurs among the holders; cheaper than sorting the holders."""
    if not ordinals:
        return np.zeros(0, np.int64)
    wanted = np.array(ordinals, np.int64)
    order = np.argsort(wanted)
    at = np.searchsorted(wanted[order], holders)
    at[at == len(wanted)] = 0
    hits = at[wanted[order][at] == holders]
    counts = np.zeros(len(wanted), np.int64)
    counts[order] = np.bincount(hits, minlength=len(wanted))
    return counts
