"""Samples of what a source's events counted: of blocks or of hashes, from the beginning of the engine's life on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np
from kvxray_engine.server.prometheus_text import LabelText
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Cause, Kind
from numpy.typing import NDArray

from kvxray_backend.exporter.counting import SteadyCount
from kvxray_backend.exporter.samples import Samples
from kvxray_backend.live_state import LiveState
from kvxray_backend.observed.engine import ObservedRank

_CAUSES: Final = (Cause.allocation, Cause.explicit, Cause.capacity)

_Counts = Mapping[str, float | None]


class EventSamples:
    """Of one source, look after look."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], SteadyCount] = defaultdict(SteadyCount)

    def add_blocks(self, samples: Samples, live: LiveState, labels: LabelText) -> None:
        """Locks it for a moment."""
        with live.lock:
            block_map, life = live.block_map, live.epoch
            if block_map is None:
                return
            totals, evictions = block_map.kind_totals.copy(), evictions_by_cause(block_map)
            counts = {
                "kvxray_preemptions_total": int(totals[Kind.RequestPreempted]),
                "kvxray_generated_tokens_total": block_map.generated_tokens,
                "kvxray_prefix_queried_tokens_total": block_map.queried_tokens,
                "kvxray_prefix_hit_tokens_total": block_map.hit_tokens,
                "kvxray_stream_gaps_total": live.counters.gaps,
                "kvxray_stream_dropped_total": live.counters.drops,
                "kvxray_stream_malformed_total": live.counters.bad_messages,
            }
            lag_s = live.lag_s
        self._add(samples, life, counts, totals, labels)
        for cause, count in evictions.items():
            told = self._counts["kvxray_evictions_total", cause].look(life, count)
            samples.add("kvxray_evictions_total", told, labels.plus(cause=cause))
        samples.add("kvxray_stream_lag_seconds", lag_s, labels)

    def add_hashes(self, samples: Samples, rank: ObservedRank, labels: LabelText) -> None:
        """Call with the engine's lock held."""
        followed = rank.followed
        counts = {
            "kvxray_stream_gaps_total": followed.findings.times["seq_gap"],
            "kvxray_stream_malformed_total": followed.findings.times["unknown_or_partial_event"],
        }
        self._add(samples, rank.epoch, counts, followed.fold.kind_totals, labels)
        if followed.last_heard_ns and followed.fold.t_ns:
            lag_s = (followed.last_heard_ns - followed.fold.t_ns) / 1e9
            samples.add("kvxray_stream_lag_seconds", lag_s, labels)

    def _add(
        self, samples: Samples, life: int | None, counts: _Counts, kinds: NDArray[np.int64], labels: LabelText
    ) -> None:
        for name, count in counts.items():
            if count is not None:
                samples.add(name, self._counts[name, ""].look(life, count), labels)
        for number in np.flatnonzero(kinds).tolist():
            kind = _kind_name(number)
            told = self._counts["kvxray_events_total", kind].look(life, float(kinds[number]))
            samples.add("kvxray_events_total", told, labels.plus(kind=kind))


def evictions_by_cause(block_map: BlockMap) -> dict[str, int]:
    """They add up to all there were. Causes that an engine of blocks can tell are 0 where it told none; `other` and
    `unknown` are there only where there are some.
    """
    by_cause, total = block_map.eviction_totals, int(block_map.kind_totals[Kind.BlockEvicted])
    told = {cause.name: int(by_cause[cause]) for cause in _CAUSES}
    rest = {"other": int(by_cause.sum()) - sum(told.values()), "unknown": total - int(by_cause.sum())}
    return told | {cause: count for cause, count in rest.items() if count > 0}


def _kind_name(number: int) -> str:
    try:
        return Kind(number).name
    except ValueError:
        return f"kind_{number}"
