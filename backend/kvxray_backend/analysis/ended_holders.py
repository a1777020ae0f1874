"""Which holders have no right to their blocks any more: the rule of `holder_ends`, for thousands of them at once. Pure.

Requests, which most holders are, are judged all together; holders of other kinds are few and go through the rule
itself.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import I8, U1, U4, distinct
from kvxray_engine.stream.holder_ends import GRACE_NS, GRACE_STEPS, EngineTime, end_of
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import ENDED_STATUSES
from numpy.typing import NDArray

EXPIRED: Final = 0
"""In place of a status: the deadline has passed."""
MAX_SPAN: Final = 1 << 26
"""Ordinals between the first and the last that are looked up in a table of one byte each."""
_IS_ENDED: Final = np.zeros(256, bool)
_IS_ENDED[[int(status) for status in ENDED_STATUSES]] = True


@dataclass(frozen=True, slots=True, eq=False)
class EndedHolders:
    """`holders`: in order, each once; `status`: how each ended, or EXPIRED; `ended_ns`: when."""

    holders: U4
    status: U1
    ended_ns: I8


@dataclass(frozen=True, slots=True, eq=False)
class EndedHolds:
    """`blocks`, `holders`: one entry a hold of those that have ended, sorted by block; `ends`: of those holders."""

    blocks: U4
    holders: U4
    ends: EndedHolders


def ended_holds(block_map: BlockMap, now: EngineTime, known: Container[int]) -> EndedHolds:
    """What is held by those that have no right to it; the null block, which stands for none, left out. Costs one pass
    over the holds. known: holders whose grace is known to be past.
    """
    requests = block_map.requests
    others = _others(requests)
    blocks, holders = block_map.holds()
    theirs = np.flatnonzero(are_among(holders, _suspects(requests, others)))
    theirs = theirs[blocks[theirs] != block_map.descriptor.null_block]
    blocks, holders = blocks[theirs], holders[theirs]
    ends = _ended(requests, distinct(holders), others, now, known)
    theirs = np.flatnonzero(are_among(holders, ends.holders))
    return EndedHolds(blocks[theirs], holders[theirs], ends)


def _others(requests: RequestTable) -> U4:
    """Holders that are no plain requests, in order."""
    others = [one for one, name in requests.names.items() if name.kind != "request" or name.deadline > 0]
    return np.sort(np.array(others, np.uint32))


def _suspects(requests: RequestTable, others: U4) -> U4:
    """Holders that may have ended: requests that did, and all that are no plain requests."""
    ended = requests.ordinals[_IS_ENDED[requests.rows["status"]]]
    return distinct(np.concatenate([ended, others])) if len(others) else ended


def _ended(requests: RequestTable, suspects: U4, others: U4, now: EngineTime, known: Container[int]) -> EndedHolders:
    """Those of the suspects (in order, each once) that have ended and are past their grace."""
    is_other = are_among(suspects, others)
    plain = suspects[~is_other]
    rows = requests.rows[np.searchsorted(requests.ordinals, plain)]
    status, ended_ns = rows["status"].copy(), rows["ended_ns"].copy()
    is_over = ~_within_grace(ended_ns, rows["ended_step"], now)
    for at in np.flatnonzero(~is_over).tolist():
        is_over[at] = int(plain[at]) in known
    told = EndedHolders(plain[is_over], status[is_over], ended_ns[is_over])
    return _with_others(told, requests, suspects[is_other].tolist(), now, known) if is_other.any() else told


def are_among(holders: U4, some: U4) -> NDArray[np.bool_]:
    """Of each holder whether it is one of `some` (in order, each once)."""
    if not len(some) or not len(holders):
        return np.zeros(len(holders), bool)
    first, last = int(some[0]), int(some[-1])
    if last - first >= MAX_SPAN:
        return np.isin(holders, some)
    # Places 0 and the last are nobody's: what lies before the first goes round to one of them.
    table = np.zeros(last - first + 3, bool)
    table[some - np.uint32(first) + np.uint32(1)] = True
    at = np.minimum(holders - np.uint32(first) + np.uint32(1), np.uint32(len(table) - 1))
    found: NDArray[np.bool_] = table[at]
    return found


def _within_grace(ended_ns: I8, ended_step: I8, now: EngineTime) -> NDArray[np.bool_]:
    """An end well ahead of now was told by a clock that was set back since: then steps alone decide."""
    within: NDArray[np.bool_] = np.abs(now.t_ns - ended_ns) <= GRACE_NS
    return within if now.is_idle else within | (now.step - ended_step < GRACE_STEPS)


def _with_others(
    told: EndedHolders, requests: RequestTable, others: list[int], now: EngineTime, known: Container[int]
) -> EndedHolders:
    ends = {one: end_of(requests, one, now, is_past_grace=one in known) for one in others}
    over = {one: end for one, end in ends.items() if end is not None}
    status = [EXPIRED if end.status is None else int(end.status) for end in over.values()]
    holders = np.concatenate([told.holders, np.array(list(over), np.uint32)])
    in_order = np.argsort(holders)
    return EndedHolders(
        holders[in_order],
        np.concatenate([told.status, np.array(status, np.uint8)])[in_order],
        np.concatenate([told.ended_ns, np.array([end.ended_ns for end in over.values()], np.int64)])[in_order],
    )
