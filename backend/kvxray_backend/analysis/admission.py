"""Admission that is stuck: requests wait, nothing runs, and the engine lives. Pure: state and the engine's time go in.

A request that holds blocks already waits for something else (a transfer), and an engine at work is merely busy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.holder_ends import EngineTime
from kvxray_engine.stream.schema import BlockState, RequestStatus
from numpy.typing import NDArray

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted

STUCK_AFTER_NS: Final = 30_000_000_000
"""An engine with nothing else to do admits a request with its next step, which comes within milliseconds."""

_WAITS: Final = (int(RequestStatus.waiting), int(RequestStatus.preempted))


def stuck_finding(place: Place, block_map: BlockMap, now: EngineTime) -> Finding | None:
    """None while anything runs, nothing waits, or it has not been so for long."""
    requests = block_map.requests
    if not len(requests) or requests.count(RequestStatus.running) or not block_map.holders_known:
        return None
    waiting = _waiting(block_map)
    if not len(waiting):
        return None
    since_ns = max(int(waiting["arrived_ns"].min()), _last_at_work(requests.rows))
    if now.t_ns - since_ns < STUCK_AFTER_NS:
        return None
    return _finding(place, block_map, waiting, since_ns)


def _waiting(block_map: BlockMap) -> NDArray[np.void]:
    """Rows of those that wait and hold nothing, oldest first."""
    rows = block_map.requests.rows
    rows = rows[np.isin(rows["status"], _WAITS)]
    return rows[~np.isin(rows["ordinal"], block_map.holds()[1])] if len(rows) else rows


def _last_at_work(rows: NDArray[np.void]) -> int:
    """When any request was scheduled, got a token or ended; 0 = never. Wall ns."""
    return max(int(rows[column].max()) for column in ("scheduled_ns", "last_token_ns", "ended_ns"))


def _finding(place: Place, block_map: BlockMap, waiting: NDArray[np.void], since_ns: int) -> Finding:
    first: Any = waiting[0]
    size, usable = block_map.descriptor.block_size, block_map.descriptor.usable_blocks
    needed, num_free = -(-int(first["prompt"] + first["output"]) // size), _num_free(block_map)
    needs = f"the first needs {counted(needed, 'block')}"
    free = f"{counted(num_free, 'block')} {'is' if num_free == 1 else 'are'} free"
    if needed > usable:
        why = f"{needs} and there are {usable:,} in all: it can never run"
    elif needed > num_free:
        why = f"{needs} and {free}: look who holds the others"
    else:
        why = f"{needs} and {free}: it is not the cache that holds it up"
    num = len(waiting)
    names = [block_map.requests.names.get(ordinal) for ordinal in waiting["ordinal"][:MAX_SUBJECTS].tolist()]
    return place.finding(
        "admission_stuck",
        "critical",
        f"{counted(num, 'request')} {'waits' if num == 1 else 'wait'} and nothing runs; {why}.",
        time_ns=since_ns,
        subjects=Subjects(requests=tuple(name.id for name in names if name is not None)),
        numbers={"waiting": num, "needed_blocks": needed, "free_blocks": num_free},
        mark="Requests wait and nothing runs.",
        sentence_when_over="Requests waited and nothing ran for {lasted}.",
        sentence_when_engine_ended="Requests waited and nothing ran until the engine ended.",
    )


def _num_free(block_map: BlockMap) -> int:
    counts = block_map.counts()
    return counts[BlockState.empty] + counts[BlockState.free] + counts[BlockState.cached]
