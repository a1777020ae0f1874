"""What the events of one chunk add to the seconds they happened in: sums, and how long tokens took. Pure array work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import NUM_KINDS, Columns, distinct
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind
from numpy.typing import NDArray

from kvxray_storage.histograms import NUM_BUCKETS, buckets_of
from kvxray_storage.rollup_book import NS, RollupBook
from kvxray_storage.rollup_columns import COUNTERS, HISTOGRAMS, MAXIMA

I8 = NDArray[np.int64]
Index = NDArray[np.intp]

_OF_KIND: Final = {
    "steps": Kind.StepStarted,
    "allocations": Kind.BlockAllocated,
    "references": Kind.BlockReferenced,
    "dereferences": Kind.BlockDereferenced,
    "frees": Kind.BlockFreed,
    "blocks_cached": Kind.BlockCached,
    "copies": Kind.BlockCopied,
    "moves": Kind.BlockMoved,
    "cache_clears": Kind.CacheCleared,
    "requests_arrived": Kind.RequestArrived,
    "requests_scheduled": Kind.RequestScheduled,
    "requests_resumed": Kind.RequestResumed,
    "requests_finished": Kind.RequestFinished,
    "requests_aborted": Kind.RequestAborted,
    "requests_failed": Kind.RequestFailed,
    "preemptions": Kind.RequestPreempted,
}
"""Counters that are the events of one kind."""

_SUMMED: Final = (
    ("step_us", Kind.StepCompleted, 1),
    ("tokens_queried", Kind.RequestScheduled, 1),
    ("tokens_hit", Kind.RequestScheduled, 2),
    ("tokens_generated", Kind.TokensGenerated, 1),
    ("tokens_computed", Kind.StepCompleted, 2),
)
"""Counters that add up what an operation says, in a0 (1) or a1 (2)."""

_EVICTIONS: Final = {
    Cause.allocation: "evictions_for_allocation",
    Cause.explicit: "evictions_explicit",
    Cause.capacity: "evictions_for_capacity",
}
_AT: Final = {name: at for at, name in enumerate(COUNTERS)}
_KIND_COLUMNS: Final = [_AT[name] for name in _OF_KIND]
_KINDS: Final = [int(kind) for kind in _OF_KIND.values()]
_EVICTION_COLUMN: Final = np.full(256, _AT["evictions_other"])
_EVICTION_COLUMN[[int(cause) for cause in _EVICTIONS]] = [_AT[name] for name in _EVICTIONS.values()]


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """TokensGenerated of one chunk, by request and in order. `before_ns`: when the request's last token before came, 0
    not known.
    """

    req: NDArray[np.uint32]
    t_ns: I8
    num: I8
    is_first: NDArray[np.bool_]
    before_ns: I8


def tokens_of(columns: Columns, times: I8, requests: RequestTable) -> Tokens | None:
    """Call it before the chunk is folded: it needs what the requests were. None: the chunk generates nothing."""
    at = np.flatnonzero((columns.kind == Kind.TokensGenerated) & (columns.req != NO_ORDINAL) & (columns.a0 > 0))
    if not len(at):
        return None
    at = at[np.argsort(columns.req[at], kind="stable")]
    req, t_ns, num = columns.req[at], times[at], columns.a0[at].astype(np.int64)
    begins = np.concatenate(([True], req[1:] != req[:-1]))
    before = np.concatenate(([0], t_ns[:-1]))
    before[begins] = _of_requests(requests, "last_token_ns", req[begins])
    return Tokens(req, t_ns, num, columns.a1[at] == columns.a0[at], before)


def _of_requests(requests: RequestTable, field: str, ordinals: NDArray[np.uint32]) -> I8:
    """A time of these requests, 0 where they are not known."""
    rows = requests.rows
    if not len(rows):
        return np.zeros(len(ordinals), np.int64)
    at = np.minimum(np.searchsorted(requests.ordinals, ordinals), len(rows) - 1)
    found: I8 = np.where(requests.ordinals[at] == ordinals, rows[field][at], 0)
    return found


def add_events(book: RollupBook, columns: Columns, times: I8) -> None:
    """Counts every operation in the second it happened in."""
    if not len(times):
        return
    seconds = times // NS
    first = int(seconds.min())
    index = seconds - first
    sums = _sums(columns, index, int(index.max()) + 1)
    longest = _longest_steps(columns, index, len(sums))
    for offset in np.flatnonzero(sums[:, _AT["events"]]).tolist():
        for row in book.rows_of(first + offset):
            row.counters += sums[offset]
            row.maxima[_MAX_AT["step_us_max"]] = max(row.maxima[_MAX_AT["step_us_max"]], longest[offset])


def _sums(columns: Columns, index: I8, num_seconds: int) -> I8:
    """One line a second, one entry a counter."""
    events = columns.events_by_operation()
    cell = index * NUM_KINDS + columns.kind
    by_kind = [
        np.bincount(cell, weights, num_seconds * NUM_KINDS).reshape(-1, NUM_KINDS)
        for weights in (events, columns.a0, columns.a1)
    ]
    sums = np.zeros((num_seconds, len(COUNTERS)), np.int64)
    sums[:, _AT["events"]] = by_kind[0].sum(axis=1)
    sums[:, _KIND_COLUMNS] = by_kind[0][:, _KINDS]
    for name, kind, value in _SUMMED:
        sums[:, _AT[name]] = by_kind[value][:, kind]
    evicted = np.flatnonzero(columns.kind == Kind.BlockEvicted)
    if len(evicted):
        cell = index[evicted] * len(COUNTERS) + _EVICTION_COLUMN[columns.cause[evicted]]
        sums += np.bincount(cell, events[evicted], sums.size).astype(np.int64).reshape(sums.shape)
    stored = np.flatnonzero(columns.kind == Kind.ResidencyStored)
    if len(stored):
        is_report = columns.cause[stored] == Cause.reuse_report
        cell = index[stored] * len(COUNTERS) + np.where(is_report, _AT["references"], _AT["blocks_cached"])
        sums += np.bincount(cell, events[stored], sums.size).astype(np.int64).reshape(sums.shape)
    sums[:, _AT["evictions_other"]] += by_kind[0][:, Kind.ResidencyRemoved].astype(np.int64)
    return sums


_MAX_AT: Final = {name: at for at, name in enumerate(MAXIMA)}
_HISTOGRAM_AT: Final = {name: at for at, name in enumerate(HISTOGRAMS)}


def _longest_steps(columns: Columns, index: I8, num_seconds: int) -> I8:
    at = np.flatnonzero(columns.kind == Kind.StepCompleted)
    longest = np.zeros(num_seconds, np.int64)
    np.maximum.at(longest, index[at], columns.a0[at])
    return longest


def add_latencies(book: RollupBook, tokens: Tokens, requests: RequestTable) -> None:
    """Call it after the chunk is folded: first tokens count from an arrival that the same chunk may tell.

    What came before a hole is no measure: tokens may lie in it.
    """
    first = np.flatnonzero(tokens.is_first)
    arrived = _of_requests(requests, "arrived_ns", tokens.req[first])
    first, arrived = first[arrived > 0], arrived[arrived > 0]
    _add_durations(book, "ttft", tokens.t_ns[first], tokens.t_ns[first] - arrived, np.ones(len(first), np.int64))
    later = np.flatnonzero(~tokens.is_first & (tokens.before_ns > book.since_ns))
    _add_durations(book, "itl", tokens.t_ns[later], tokens.t_ns[later] - tokens.before_ns[later], tokens.num[later])


def _add_durations(book: RollupBook, name: str, t_ns: I8, took_ns: I8, num: I8) -> None:
    """Each of `num` tokens took an equal part of its operation's time."""
    if not len(t_ns):
        return
    seconds, took_us = t_ns // NS, np.maximum(took_ns, 0) // 1000
    each = took_us // num
    buckets = buckets_of(each)
    for second in distinct(seconds).tolist():
        here = seconds == second
        histogram = np.bincount(buckets[here], num[here], NUM_BUCKETS).astype(np.int64)
        count, total, longest = int(num[here].sum()), int(took_us[here].sum()), int(each[here].max())
        for row in book.rows_of(second):
            row.counters[_AT[f"{name}_count"]] += count
            row.counters[_AT[f"{name}_us"]] += total
            row.maxima[_MAX_AT[f"{name}_us_max"]] = max(row.maxima[_MAX_AT[f"{name}_us_max"]], longest)
            row.histograms[_HISTOGRAM_AT[f"{name}_histogram"]] += histogram
