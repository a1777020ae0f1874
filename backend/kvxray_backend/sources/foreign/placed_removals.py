"""Removals that do not say from which medium, as removals from where the hashes are. Pure.

TensorRT-LLM tells where a block is when it is stored and when it moves, and not when it goes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec
import numpy as np
from kvxray_engine.stream.residency_descriptor import place_of
from kvxray_engine.stream.residency_state import ResidencyState

from kvxray_backend.sources.foreign.told import Batch, Hash, Moved, Place, Removed, Stored, Told

_GPU: Final = "GPU"


def with_media(batch: Batch, fold: ResidencyState) -> Batch:
    """The same batch; every medium that has a hash loses a copy, the GPU where none has. `fold`: before the batch."""
    if not names_no_medium(batch):
        return batch
    media = _Media(fold)
    events: list[Told] = []
    for event in batch.events:
        placed = media.placed(event) if isinstance(event, Removed) and event.is_any_medium else [event]
        for one in placed:
            media.note(one)
        events += placed
    return msgspec.structs.replace(batch, events=tuple(events))


def names_no_medium(batch: Batch) -> bool:
    """Whether something is removed of which only the fold knows where it is."""
    return any(isinstance(event, Removed) and event.is_any_medium for event in batch.events)


class _Media:
    """Where the hashes are that a batch mentions, while it is gone through."""

    def __init__(self, fold: ResidencyState) -> None:
        self._fold = fold
        self._of: dict[tuple[Hash, int], dict[str, int]] = {}
        """Copies by medium, of a hash in a group."""

    def placed(self, removed: Removed) -> list[Removed]:
        by_medium: defaultdict[str, list[Hash]] = defaultdict(list)
        for one in removed.hashes:
            there = self._media_of(removed, one) or [_GPU]
            for medium in there:
                by_medium[medium].append(one)
        group = removed.place.group
        return [
            msgspec.structs.replace(removed, hashes=tuple(hashes), place=Place(medium, group), is_any_medium=False)
            for medium, hashes in by_medium.items()
        ]

    def note(self, event: Told) -> None:
        if isinstance(event, Stored):
            self._add(event.hashes, event.place, 1)
        elif isinstance(event, Removed):
            self._add(event.hashes, event.place, -1)
        elif isinstance(event, Moved):
            self._add(event.hashes, event.source, -1)
            self._add(event.hashes, event.target, 1)

    def _add(self, hashes: tuple[Hash, ...], place: Place, change: int) -> None:
        medium = place.medium.upper() or _GPU
        for one in hashes:
            copies = self._copies(one, place.group)
            copies[medium] = max(0, copies.get(medium, 0) + change)

    def _media_of(self, removed: Removed, one: Hash) -> list[str]:
        groups = range(len(self._fold.descriptor.groups)) if removed.is_any_group else (removed.place.group,)
        found = [medium for group in groups for medium, copies in self._copies(one, group).items() if copies]
        return list(dict.fromkeys(found))

    def _copies(self, one: Hash, group: int) -> dict[str, int]:
        if (one, group) not in self._of:
            self._of[one, group] = self._folded(one, group)
        return self._of[one, group]

    def _folded(self, one: Hash, group: int) -> dict[str, int]:
        if len(one) > self._fold.hash_table.width:
            return {}
        ordinals = np.array(self._fold.ordinals_of(one)[-1:], np.uint32)
        pools = self._fold.descriptor.pools
        counts = [self._fold.copies(ordinals, place_of(group, medium)) for medium in range(len(pools))]
        return {
            pool.name.upper(): int(count[0])
            for pool, count in zip(pools, counts, strict=True)
            if len(count) and count[0]
        }
