"""For which tenant every block is held, as far as the requests that hold it say. Pure.

Tenants are keyed digests: equal where they were equal, and nothing else can be read from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from kvxray_engine.stream.holder_log import ANONYMOUS
from kvxray_engine.stream.schema import Name
from numpy.typing import NDArray

UNKNOWN: Final = 0
NOBODY: Final = 1
NOT_TOLD: Final = 2
SEVERAL: Final = 3
OTHERS: Final = 4
FIRST: Final = 5
MOST_TENANTS: Final = 64

U1 = NDArray[np.uint8]
U4 = NDArray[np.uint32]


def are_told(names: Mapping[int, Name]) -> bool:
    """Whether any request says for which tenant it is."""
    return any(name.tenant for name in names.values())


def tenants_of_blocks(
    unheld: NDArray[np.bool_], blocks: U4, holders: U4, names: Mapping[int, Name]
) -> tuple[U1, list[str]]:
    """A class for every block, and the tenants of most blocks: the first has the class FIRST, and so on.

    unheld: which blocks nobody holds. blocks, holders: one entry a hold, sorted by block.
    """
    codes, known = codes_of_blocks(unheld, blocks, holders, names)
    ranks, told = _ranked(codes, known)
    return ranks[codes], told


def codes_of_blocks(
    unheld: NDArray[np.bool_], blocks: U4, holders: U4, names: Mapping[int, Name]
) -> tuple[U4, list[str]]:
    """As `tenants_of_blocks`, but all tenants have a code of their own: FIRST and their place among those named."""
    codes: U4 = np.where(unheld, NOBODY, UNKNOWN).astype(np.uint32)
    if not len(blocks):
        return codes, []
    ordinals, at = np.unique(holders, return_inverse=True)
    tenants = [_tenant(int(ordinal), names) for ordinal in ordinals]
    known = sorted({tenant for tenant in tenants if tenant})
    of_tenant = {tenant: FIRST + place for place, tenant in enumerate(known)}
    told = np.array([UNKNOWN if t is None else of_tenant.get(t, NOT_TOLD) for t in tenants], np.uint32)[at]
    firsts = np.flatnonzero(np.concatenate(([True], blocks[1:] != blocks[:-1])))
    least, most = np.minimum.reduceat(told, firsts), np.maximum.reduceat(told, firsts)
    codes[blocks[firsts]] = np.where(least == UNKNOWN, UNKNOWN, np.where(least == most, least, SEVERAL))
    return codes, known


def _tenant(ordinal: int, names: Mapping[int, Name]) -> str | None:
    """Of a holder, a sequence's from its request; empty where it names none, None where it is not known who it is."""
    name = names.get(ordinal) if ordinal != ANONYMOUS else None
    if name is not None and not name.tenant and name.parent >= 0:
        name = names.get(name.parent, name)
    return None if name is None else name.tenant


def _ranked(codes: U4, known: list[str]) -> tuple[U1, list[str]]:
    """What each class becomes once those of most blocks come first and the rest are OTHERS, and their tenants."""
    counts = np.bincount(codes, minlength=FIRST + len(known))[FIRST:]
    most = np.argsort(-counts, kind="stable")[:MOST_TENANTS]
    ranks = np.full(FIRST + len(known), OTHERS, np.uint8)
    ranks[:FIRST] = np.arange(FIRST)
    ranks[FIRST + most] = FIRST + np.arange(len(most))
    return ranks, [known[tenant] for tenant in most]
