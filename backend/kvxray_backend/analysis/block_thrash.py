"""Blocks that an engine of ours evicts and computes again soon after, again and again: what is in use does not fit."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.key_index import U8

from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Severity, Subjects
from kvxray_backend.analysis.readmissions import THRASH_FROM, WORTH_A_WARNING
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted

_LOOKED_AT_ONCE: Final = 8192
"""Blocks: where much comes back, a few of a million name as many as are named."""


def block_thrash_finding(place: Place, block_map: BlockMap, lives: BlockLives) -> Finding | None:
    """Open while anything comes back again and again; call where `lives` has been told all that is folded."""
    lives.settle()
    keys = lives.thrashing(place.t_ns, THRASH_FROM)
    if not len(keys):
        return None
    evicted, returned = lives.gone.since(place.t_ns).shape[1], lives.returned.since(place.t_ns).shape[1]
    num = len(keys)
    severity: Severity = "warning" if evicted and returned >= WORTH_A_WARNING * evicted else "info"
    return place.finding(
        "thrash",
        severity,
        f"{counted(num, 'block')} {'was' if num == 1 else 'were each'} evicted and computed again twice or more within "
        f"a minute; in that time {counted(evicted, 'block')} went and {returned:,} came back.",
        subjects=_subjects(block_map, _carriers(lives.key_of, keys)),
        numbers={"blocks": num, "readmissions": returned, "evictions": evicted},
        certainty="exact" if lives.knows_evictions(place.t_ns) else "derived",
        mark="Blocks are evicted and computed again within a minute, again and again.",
        sentence_when_over="Blocks were evicted and computed again, again and again, for {lasted}.",
        sentence_when_engine_ended="Blocks were evicted and computed again, again and again, until the engine ended.",
    )


def _carriers(key_of: U8, keys: U8) -> list[int]:
    """The first blocks that carry one of these hashes. key_of: one entry a block; keys: sorted."""
    found: list[int] = []
    for begin in range(0, len(key_of), _LOOKED_AT_ONCE):
        carried = key_of[begin : begin + _LOOKED_AT_ONCE]
        at = np.minimum(np.searchsorted(keys, carried), len(keys) - 1)
        found += (begin + np.flatnonzero(keys[at] == carried)).tolist()
        if len(found) >= MAX_SUBJECTS:
            break
    return found[:MAX_SUBJECTS]


def _subjects(block_map: BlockMap, blocks: list[int]) -> Subjects:
    """The blocks that hold them now; hashes that are gone once more are not named."""
    is_told, data = block_map.hashes.of(block_map.hash_ordinal[blocks])
    hashes = dict.fromkeys(one.tobytes().hex() for one in data[is_told])
    return Subjects(blocks=tuple(blocks), hashes=tuple(hashes))
