"""A reset told after later batches had been applied: what it cleared then, as removals that can be applied now."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from kvxray_engine.stream.residency_descriptor import group_of, medium_of
from kvxray_engine.stream.residency_state import ResidencyState

from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.sources.foreign.told import Batch, Cleared, Hash, Place, Removed, Told


def without_late_clears(batch: Batch, fold: ResidencyState) -> Batch:
    """The same batch with removals in place of its clears: of every copy of what was last told of before it. What
    later batches told of is there whatever the reset cleared; a batch without a time clears nothing.
    """
    if not any(isinstance(event, Cleared) for event in batch.events):
        return batch
    events: list[Told] = []
    for event in batch.events:
        events += _removals(fold, event, batch.ts) if isinstance(event, Cleared) else [event]
    return msgspec.structs.replace(batch, events=tuple(events))


def _removals(fold: ResidencyState, clear: Cleared, ts: float | None) -> list[Removed]:
    if ts is None:
        return []
    before_ns = round(ts * 1e6) * 1000
    is_old = (fold.entries["copies"] > 0) & (fold.entries["t_last"] <= before_ns)
    keys = fold.entries.index.keys_by_row()[is_old]
    by_place: defaultdict[int, list[Hash]] = defaultdict(list)
    for key, copies in zip(keys.tolist(), fold.entries["copies"][is_old].tolist(), strict=True):
        block_hash = fold.hash_bytes(key >> 16)
        if block_hash is not None and _is_cleared(fold, medium_of(key & 0xFFFF), clear):
            by_place[key & 0xFFFF] += [block_hash] * copies
    return [Removed(tuple(hashes), _place(fold, place)) for place, hashes in sorted(by_place.items())]


def _is_cleared(fold: ResidencyState, medium: int, clear: Cleared) -> bool:
    pool = fold.descriptor.pools[medium]
    return pool.name.upper() == clear.medium.upper() if clear.medium else tier_of(pool.name) == "GPU"


def _place(fold: ResidencyState, place: int) -> Place:
    return Place(fold.descriptor.pools[medium_of(place)].name, group_of(place))
