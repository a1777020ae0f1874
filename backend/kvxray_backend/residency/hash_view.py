"""The answer of `/api/residency/hash`: one hash in full. All but bytes and names comes out of the columns, so that the
lock is held for a few look-ups only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from kvxray_engine.stream.residency_descriptor import group_of, medium_of
from kvxray_engine.stream.residency_state import ResidencyState
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Name

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.moments import iso_time_or_none
from kvxray_backend.residency.answers import HashPlaceView, LinkView, ResidencyHashView
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.places import tier_of_pool
from kvxray_backend.told_findings import the_most_telling

MAX_CHILDREN: Final = 100
MAX_CHAIN: Final = 100_000
"""Steps up a chain that are gone; no prompt has as many blocks."""
HashBytes = Callable[[int], bytes | None]

Sure = Literal["gone", "maybe", "certain"]
_SURE: Final[tuple[Sure, ...]] = ("gone", "maybe", "certain")


@dataclass(frozen=True, slots=True)
class HashQuestion:
    """What was asked for: the hash itself, or its ordinal in the epoch."""

    block_hash: bytes | None = None
    ordinal: int | None = None

    def answer(self, fold: ResidencyState) -> int | None:
        """Its ordinal, that told last where it was forgotten in between; None: it is not known. Call with the lock held
        that guards the fold.
        """
        if self.block_hash is None:
            return self.ordinal
        is_too_wide = len(self.block_hash) > fold.hash_table.width
        told = [] if is_too_wide else fold.ordinals_of(self.block_hash)
        return told[-1] if told else None


def hash_view(
    columns: ResidencyColumns,
    ordinal: int,
    bytes_of: HashBytes,
    name_of: Callable[[int], Name | None],
    source: str,
    findings: tuple[Finding, ...],
) -> ResidencyHashView | None:
    """None: no hash of that ordinal is remembered."""
    data = bytes_of(ordinal)
    if data is None:
        return None
    places = [_place(columns, row) for row in columns.rows_of(ordinal)]
    parent = columns.parent_of(ordinal)
    children = np.unique(columns.ordinals[columns.parents == ordinal])
    name = _name(columns, ordinal, name_of)
    return ResidencyHashView(
        source=source,
        hash=data.hex(),
        ordinal=ordinal,
        copies=sum(place.copies for place in places),
        certainty=max((place.certainty for place in places), key=_SURE.index, default="gone"),
        places=places,
        parent=_link(columns, parent, bytes_of) if parent < UNKNOWN_U4 else None,
        is_root=None if parent == UNKNOWN_U4 else parent == NO_ORDINAL,
        children=[_link(columns, child, bytes_of) for child in children[:MAX_CHILDREN].tolist()],
        num_children=len(children),
        chain_length=_chain_length(columns, ordinal),
        session=name.session,
        lora=name.lora,
        salt=name.salt,
        findings=the_most_telling([one for one in findings if data.hex() in one.subjects.hashes]),
    )


def _place(columns: ResidencyColumns, row: int) -> HashPlaceView:
    descriptor, place = columns.descriptor, int(columns.keys[row]) & 0xFFFF
    pool, group = descriptor.pools[medium_of(place)], group_of(place)
    copies = int(columns.copies[row])
    is_sure = columns.counts_copies or bool(columns.sure[row])
    return HashPlaceView(
        place=place,
        medium=pool.name,
        tier=tier_of_pool(pool),
        group=group,
        kind=descriptor.groups[group].kind,
        copies=copies,
        certainty="gone" if not copies else "certain" if is_sure else "maybe",
        block_size=descriptor.block_sizes[int(columns.block_sizes[row])] or None,
        first=iso_time_or_none(int(columns.t_first[row])),
        last=iso_time_or_none(int(columns.t_last[row])),
        stores=int(columns.stores[row]),
        removals=int(columns.removals[row]),
        reuses=int(columns.reuses[row]),
    )


def _link(columns: ResidencyColumns, ordinal: int, bytes_of: HashBytes) -> LinkView:
    data = bytes_of(ordinal)
    rows = columns.rows_of(ordinal)
    return LinkView(
        hash=data.hex() if data is not None else None,
        ordinal=ordinal,
        is_here=bool(columns.is_here[rows.start : rows.stop].any()),
    )


def _name(columns: ResidencyColumns, ordinal: int, name_of: Callable[[int], Name | None]) -> Name:
    told = (int(columns.names[row]) for row in columns.rows_of(ordinal))
    names = (name_of(name) for name in told if name != NO_ORDINAL)
    return next((name for name in names if name is not None), Name(""))


def _chain_length(columns: ResidencyColumns, ordinal: int) -> int:
    """Blocks from the root, or from where the chain is remembered, to this one."""
    length, at = 1, ordinal
    while length < MAX_CHAIN and (parent := columns.parent_of(at)) < at:
        at, length = parent, length + 1
    return length
