"""How much of what is cached of an engine that tells of hashes is whose, by the names under which hashes were stored.
Pure.

Engines tell a salt with the first block of a prompt only, and what follows in its chain is the same tenant's. Where the
beginning of a chain is not known, nor is its salt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.residency_state import first_of_each
from kvxray_engine.stream.schema import Name
from numpy.typing import NDArray

from kvxray_backend.analysis.tenant_shares import Shares, Tenancy, Tenant, ToldBy, counted_shares, tenant_of
from kvxray_backend.block_tenants import FIRST, NOT_TOLD, SEVERAL, UNKNOWN
from kvxray_backend.residency.chain_order import parents_of_hashes
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.measures import parents_among

_FROM_ROOT: Final = ("tenant", "salt")
"""What a whole chain has from its first block."""
_NONE: Final = -1
_MANY: Final = -2
_LOST: Final = -3

Codes = NDArray[np.int64]


def shares_of_hashes(columns: ResidencyColumns, names: Mapping[int, Name], by: ToldBy | None = None) -> Shares:
    """Each hash once, wherever it is cached. columns: in order."""
    _, whose = tenancy_of_hashes(columns, names, by)
    return counted_shares(whose.codes, whose.tenants)


def tenancy_of_hashes(
    columns: ResidencyColumns, names: Mapping[int, Name], by: ToldBy | None = None
) -> tuple[U4, Tenancy]:
    """The ordinals of all that are cached, and whose each is. columns: in order."""
    ordinals = columns.ordinals
    if not len(ordinals):
        return ordinals, Tenancy(ordinals, [])
    starts = first_of_each(ordinals)
    is_here = np.logical_or.reduceat(columns.is_here, starts)
    own, tenants = _own_codes(columns, names, by)
    is_of_chain = np.array([one.told_by in _FROM_ROOT for one in tenants], bool)
    of_chain = np.where((own >= 0) & np.append(is_of_chain, False)[own], own, _NONE)
    codes = _of_each_hash(np.where(columns.is_here, own, _NONE), starts)
    if is_of_chain.any():
        above = parents_among(ordinals[starts], parents_of_hashes(columns.parents, starts))
        inherited = _inherited(_of_each_hash(of_chain, starts), above)
        codes = np.where(inherited == _NONE, codes, inherited)
    return ordinals[starts][is_here], Tenancy(_as_told(codes[is_here]), tenants)


def _own_codes(columns: ResidencyColumns, names: Mapping[int, Name], by: ToldBy | None) -> tuple[Codes, list[Tenant]]:
    """The tenant of each entry as its own name tells it, as a place among the tenants."""
    ordinals, at = np.unique(columns.names, return_inverse=True)
    told = [tenant_of(names[one], by) if one in names else None for one in ordinals.tolist()]
    places = {tenant: place for place, tenant in enumerate(dict.fromkeys(one for one in told if one is not None))}
    codes = np.array([_NONE if one is None else places[one] for one in told], np.int64)[at]
    return codes, list(places)


def _of_each_hash(codes: Codes, starts: NDArray[np.intp]) -> Codes:
    """One for all places of a hash: what is not told in one of them is no difference."""
    most = np.maximum.reduceat(codes, starts)
    least = np.minimum.reduceat(np.where(codes == _NONE, np.iinfo(np.int64).max, codes), starts)
    found: Codes = np.where((most == _NONE) | (least == most), most, _MANY)
    return found


def _inherited(codes: Codes, above: NDArray[np.intp]) -> Codes:
    """Of each hash, its own or that of the nearest before it in its chain. above: -1 for a root, -2 where what comes
    before is not known. Each round looks twice as far.
    """
    codes, up = codes.copy(), above.astype(np.int64)
    codes[(codes == _NONE) & (up == -2)] = _LOST
    asking = np.flatnonzero((codes == _NONE) & (up >= 0))
    while len(asking):
        before = up[asking]
        told, further = codes[before], up[before]
        codes[asking], up[asking] = told, further
        asking = asking[(told == _NONE) & (further >= 0)]
    return codes


def _as_told(codes: Codes) -> U4:
    told = FIRST + codes
    for code, meant in ((_NONE, NOT_TOLD), (_MANY, SEVERAL), (_LOST, UNKNOWN)):
        told[codes == code] = meant
    return told.astype(np.uint32)
