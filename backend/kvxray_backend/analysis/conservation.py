"""Whether blocks, hashes and references add up: the engine's own totals against the fold, references against holders.

Pure. Says nothing while any block, or who holds it, is unknown. The engine tells totals of all its pools together, so
none is told by pool; blocks whose references do not add up are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, BlockState, Totals
from numpy.typing import NDArray

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects
from kvxray_backend.analysis.stream_health import Place

_WHAT: Final = {"free": "free block", "hashed": "hashed block", "references": "reference"}
_SIDES: Final = ("engine", "stream")
_MEANS_MORE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "free": "it let go of blocks and did not tell, or counts some twice",
        "hashed": "its cache leads to blocks that by its events carry no hash",
        "references": "it took references and did not tell, or counts some twice",
    }
)
_MEANS_FEWER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "free": "it took blocks and did not tell, or has lost them from those that it can give out",
        "hashed": "it took blocks out of its cache and did not tell",
        "references": "it gave references back and did not tell",
    }
)
assert NO_ORDINAL > UNKNOWN_U4, "ordinals below UNKNOWN_U4 are real ones"


def can_add_up(block_map: BlockMap) -> bool:
    """Whether enough is known for the sums to mean anything."""
    return block_map.holders_known and not block_map.counts()[BlockState.unknown]


def audit_finding(place: Place, block_map: BlockMap, totals: Totals) -> Finding | None:
    """Whether the engine's own totals, told with the last message folded, agree with the fold; None when they do.

    `residual_*` is what the engine counts more (below zero: fewer) than its events come to. Costs one pass over the
    blocks.
    """
    pairs = _pairs(block_map, totals) if can_add_up(block_map) else {}
    residuals = {name: theirs - ours for name, (theirs, ours) in pairs.items()}
    if not any(residuals.values()):
        return None
    wrong = {name: residual for name, residual in residuals.items() if residual}
    differs = [_differs(name, residual, *pairs[name]) for name, residual in wrong.items()]
    means = [(_MEANS_MORE if residual > 0 else _MEANS_FEWER)[name] for name, residual in wrong.items()]
    counted = {
        f"{_WHAT[name]}s {side}": value
        for name, pair in pairs.items()
        for side, value in zip(_SIDES, pair, strict=True)
    }
    return place.finding(
        "audit",
        "critical",
        f"Against its events the engine counts {', '.join(differs)}: {'; '.join(means)}.",
        numbers={**counted, **{f"residual_{name}": residual for name, residual in residuals.items()}},
    )


def ref_mismatch_finding(place: Place, block_map: BlockMap) -> Finding | None:
    """Blocks with more references than known holders (nobody can let go of those), or with fewer (they may be given
    away while they are held); None when there are none. Costs one pass over blocks and holds.
    """
    if not can_add_up(block_map):
        return None
    excess = _excess(block_map)
    if not excess.any():
        return None
    orphans, overheld = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    told = []
    if len(orphans):
        told.append(f"{_have(orphans, excess)} more than holders: nobody can let go of what nobody holds")
    if len(overheld):
        told.append(f"{_have(overheld, -excess)} fewer than holders: what is held may be given away")
    return place.finding(
        "ref_mismatch",
        "critical",
        f"{'; '.join(told)}.",
        subjects=Subjects(blocks=tuple(np.concatenate([orphans, overheld])[:MAX_SUBJECTS].tolist())),
        numbers={
            "blocks_orphaned": len(orphans),
            "blocks_overheld": len(overheld),
            "residual_orphaned": int(excess[orphans].sum()),
            "residual_overheld": int(excess[overheld].sum()),
        },
    )


def _pairs(block_map: BlockMap, totals: Totals) -> dict[str, tuple[int, int]]:
    """Each total as the engine tells it, and as its events come to; the null block stands for none."""
    counts, null = block_map.counts(), block_map.descriptor.null_block
    references = int(block_map.ref.sum(dtype=np.int64)) - (int(block_map.ref[null]) if null >= 0 else 0)
    return {
        "free": (totals.num_free, counts[BlockState.empty] + counts[BlockState.free] + counts[BlockState.cached]),
        "hashed": (totals.num_hashed, int(np.count_nonzero(block_map.hash_ordinal < UNKNOWN_U4))),
        "references": (totals.ref_sum, references),
    }


def _excess(block_map: BlockMap) -> NDArray[np.int64]:
    """By how much each block's references exceed its holders; 0 for the null block."""
    excess: NDArray[np.int64] = block_map.ref - block_map.num_holds()
    if block_map.descriptor.null_block >= 0:
        excess[block_map.descriptor.null_block] = 0
    return excess


def _differs(name: str, residual: int, theirs: int, ours: int) -> str:
    num = abs(residual)
    what = _WHAT[name] + ("" if num == 1 else "s")
    return f"{num:,} {what} {'more' if residual > 0 else 'fewer'} ({theirs:,}, not {ours:,})"


def _have(blocks: NDArray[np.intp], by: NDArray[np.int64]) -> str:
    num = int(by[blocks].sum())
    references = "1 reference" if num == 1 else f"{num:,} references"
    who = f"Block {blocks[0]} has" if len(blocks) == 1 else f"{len(blocks):,} blocks have"
    return f"{who} {references}"
