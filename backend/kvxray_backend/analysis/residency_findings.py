"""What an engine that tells of hashes only says against itself: laws broken by its stream, and by what is cached.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_descriptor import group_of, medium_of
from kvxray_engine.stream.residency_faults import FaultKind, ResidencyFault
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_state import ResidencyState, keys_of
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Severity, Subjects
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted

MAX_UNREACHABLE: Final = MAX_SUBJECTS
"""Listed; numbers count them all."""
_MAX_JUMPS: Final = 32
"""Each doubles the way that was gone, and no chain is longer than 2^32."""
_SHOWN_DIGITS: Final = 16

_SAID: Final[dict[FaultKind, tuple[Severity, str]]] = {
    "orphan_parent": ("warning", "A block was stored after {hash}, which was never told of."),
    "store_on_missing_parent": ("warning", "A block was stored after {hash}, which was told to be gone{there}."),
    "duplicate_store": (
        "info",
        "{Hash} was stored again while it was there{there}: a second copy, or a report that it was used.",
    ),
    "remove_unknown": ("info", "{Hash} was removed{there} and was not there."),
    "block_size_changed": ("warning", "Blocks of group {group} had {before:,} tokens and have {after:,} now."),
    "token_count_mismatch": ("warning", "A store{there} tells of another number of tokens than its blocks hold."),
    "sparse_group": (
        "info",
        "Group {group} ({kind}) tells of one hash for several blocks: its chains have holes by design.",
    ),
    "hash_namespace_collision": (
        "warning",
        "{Hash} was stored{there} with another parent, adapter or salt than before: two blocks have one hash.",
    ),
}
_ABOUT_A_HASH: Final = frozenset(
    {"orphan_parent", "store_on_missing_parent", "duplicate_store", "remove_unknown", "hash_namespace_collision"}
)


def fault_finding(place: Place, fault: ResidencyFault, fold: ResidencyState) -> Finding:
    """A moment. What may only seem broken because not everything was told is information, and derived."""
    severity, text = _SAID[fault.kind]
    digits = _hash_text(fold, fault.ordinal)
    pool, group = fold.descriptor.pools[medium_of(fault.place)], group_of(fault.place)
    sentence = text.format(
        hash=f"hash {_short(digits)}", Hash=f"Hash {_short(digits)}", there=f" on {pool.name or pool.medium}",
        group=group, kind=fold.descriptor.groups[group].kind or "of no told kind",
        before=fault.before, after=fault.after,
    )  # fmt: skip
    if not fault.is_certain:
        sentence += " Not everything was told since the engine began, so it may be no fault of the engine."
    numbers: dict[str, int | float] = {"group": group}
    if fault.kind == "block_size_changed":
        numbers |= {"before": fault.before, "after": fault.after}
    return place.finding(
        fault.kind,
        severity if fault.is_certain else "info",
        sentence,
        fault.ordinal if fault.kind in _ABOUT_A_HASH else fault.place,
        *((fault.before, fault.after) if fault.kind == "block_size_changed" else ()),
        seq0=fault.seq,
        seq1=fault.seq,
        time_ns=fault.t_ns,
        subjects=Subjects(hashes=(digits,) if digits else ()),
        numbers=numbers,
        certainty="exact" if fault.is_certain else "derived",
    ).ended(fault.t_ns)


def over_capacity_finding(place: Place, fold: ResidencyState, medium: int, num_blocks: int | None) -> Finding | None:
    """More is cached than the medium has blocks. num_blocks: by metrics or an operator; None: as the stream tells."""
    told = fold.descriptor.pools[medium].num_blocks
    capacity = num_blocks if num_blocks is not None else told
    copies = fold.copies_on(medium)
    if not 0 < capacity < copies:
        return None
    sure = certain_on(fold, medium)
    name = fold.descriptor.pools[medium].name
    why = "removals were lost" if sure > capacity else "repeated stores are reports of use and no second copies"
    return place.finding(
        "resident_over_capacity",
        "warning",
        f"Events tell of {copies:,} cached blocks on {name}, which has {capacity:,}: {why}.",
        medium,
        numbers={"resident": copies, "certain": sure, "capacity": capacity},
        certainty="exact" if sure > capacity else "derived",
    )


def certain_on(fold: ResidencyState, medium: int) -> int:
    """Copies that are there even if every repeated store only reported a use."""
    if fold.store_semantics == "copies":
        return fold.copies_on(medium)
    return int(fold.entries["sure"][(fold.entry_places() >> 8) == medium].sum(dtype=np.int64))


def unreachable_findings(place: Place, fold: ResidencyMap, told: Collection[int]) -> list[Finding]:
    """Blocks that no prompt can use any more, since a block before them is gone: one finding for each place. told:
    ordinals of parents that were missing when something was stored on them, which was said then.
    """
    found = []
    for where in fold.places():
        ordinals = _cut_off(fold, where, told)
        if not len(ordinals):
            continue
        pool, num = fold.descriptor.pools[medium_of(where)], len(ordinals)
        finding = place.finding(
            "unreachable_resident",
            "info",
            f"{counted(num, 'block')} cached on {pool.name} can be reached by no prompt: a block before "
            f"{'it' if num == 1 else 'each'} is gone.",
            where,
            subjects=Subjects(
                hashes=tuple(_hash_text(fold, ordinal) for ordinal in ordinals[:MAX_UNREACHABLE].tolist())
            ),
            numbers={"blocks": num},
            certainty="exact" if fold.known else "derived",
        )
        found.append(finding)
    return found


def _cut_off(fold: ResidencyMap, where: int, told: Collection[int]) -> U4:
    """Unreachable residents whose chain breaks at a block that was removed, but for what was told already."""
    ordinals = fold.unreachable(where)
    if not len(ordinals):
        return ordinals
    parents = fold.entries["parent"][fold.entries.index.find(keys_of(ordinals, where))]
    at = np.minimum(np.searchsorted(ordinals, parents), len(ordinals) - 1)
    first = np.where(ordinals[at] == parents, at, np.arange(len(ordinals)))
    for _ in range(_MAX_JUMPS):
        first = first[first]
    missing = parents[first]
    is_cut = (missing < UNKNOWN_U4) & fold.are_gone(missing)
    is_cut &= ~np.isin(missing, np.fromiter(told, np.uint32, len(told)))
    cut: U4 = ordinals[is_cut]
    return cut


def _hash_text(fold: ResidencyState, ordinal: int) -> str:
    data = None if ordinal == NO_ORDINAL else fold.hash_bytes(ordinal)
    return data.hex() if data is not None else ""


def _short(digits: str) -> str:
    return digits if len(digits) <= _SHOWN_DIGITS else f"{digits[:_SHOWN_DIGITS]}…"
