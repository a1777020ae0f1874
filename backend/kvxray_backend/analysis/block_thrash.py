"""Blocks that an engine of ours evicts and computes again soon after, again and again: what is in use does not fit."""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.block_map import BlockMap

from kvxray_backend.analysis.block_lives import BlockLives
from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Severity, Subjects
from kvxray_backend.analysis.readmissions import THRASH_FROM, WORTH_A_WARNING
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted


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
        subjects=_subjects(block_map, np.flatnonzero(np.isin(lives.key_of, keys))[:MAX_SUBJECTS].tolist()),
        numbers={"blocks": num, "readmissions": returned, "evictions": evicted},
        certainty="exact" if lives.knows_evictions(place.t_ns) else "derived",
        mark="Blocks are evicted and computed again within a minute, again and again.",
        sentence_when_over="Blocks were evicted and computed again, again and again, for {lasted}.",
        sentence_when_engine_ended="Blocks were evicted and computed again, again and again, until the engine ended.",
    )


def _subjects(block_map: BlockMap, blocks: list[int]) -> Subjects:
    """The blocks that hold them now; hashes that are gone once more are not named."""
    told = (block_map.hash_bytes(int(block_map.hash_ordinal[block])) for block in blocks)
    hashes = dict.fromkeys(data.hex() for data in told if data is not None)
    return Subjects(blocks=tuple(blocks), hashes=tuple(hashes))
