"""The answer to what became different between two moments."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from kvxray_storage.state_diff import StateDiff, diff

from kvxray_backend.history_types import DiffView, HolderChange
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Point

KINDS: Final = (
    "allocated", "freed", "cached", "evicted", "referenced", "dereferenced", "filled", "learned", "forgotten",
)  # fmt: skip


def diff_view(before: LiveState, after: LiveState, limit: int) -> DiffView:
    """Raises ValueError, with one sentence, where the two cannot be compared."""
    with before.lock, after.lock:
        assert before.block_map is not None, "a moment has a state"
        assert after.block_map is not None, "a moment has a state"
        found = diff(before.block_map, after.block_map)
        blocks = {kind: getattr(found, kind) for kind in KINDS} | {"holders": _held_by_others(found)}
        return DiffView(
            source=after.source,
            from_seq=_seq_of(before),
            to_seq=_seq_of(after),
            counts={kind: len(ids) for kind, ids in blocks.items()},
            blocks={kind: ids[:limit].tolist() for kind, ids in blocks.items()},
            changed=len(found.changed()),
            holders=_holders(found, after.block_map, before.block_map, limit),
        )


def _held_by_others(found: StateDiff) -> U4:
    """Blocks that somebody holds more or less often than before."""
    pairs = [pairs[0] for pairs in (found.gained, found.lost) if pairs is not None]
    return np.unique(np.concatenate([np.zeros(0, np.uint32), *pairs]))


def _seq_of(state: LiveState) -> str | None:
    return str(Point(state.epoch or 0, state.seq)) if state.seq is not None else None


def _holders(found: StateDiff, after: BlockMap, before: BlockMap, limit: int) -> list[HolderChange] | None:
    if found.gained is None or found.lost is None:
        return None
    ordinals = np.unique(np.concatenate([found.gained[1], found.lost[1]]))
    pairs = (found.gained, found.lost)
    gained, lost = (np.bincount(np.searchsorted(ordinals, whom), minlength=len(ordinals)) for _, whom in pairs)
    most = np.lexsort((ordinals, -(gained + lost)))[:limit]
    names = before.requests.names | after.requests.names
    return [
        HolderChange(
            holder=int(ordinals[at]),
            request_id=names[int(ordinals[at])].id if int(ordinals[at]) in names else f"#{ordinals[at]}",
            gained=int(gained[at]),
            lost=int(lost[at]),
        )
        for at in most
    ]
