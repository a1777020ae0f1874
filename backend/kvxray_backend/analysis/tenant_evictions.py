"""Whose blocks were evicted, and for whom: which tenant pushed which out of the cache. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.schema import NO_ORDINAL, Name

from kvxray_backend.analysis.block_owners import RoomMade
from kvxray_backend.analysis.tenant_shares import Tenant, ToldBy, labelled
from kvxray_backend.block_tenants import FIRST, NOT_TOLD, UNKNOWN, codes_of_blocks

MOST_TOLD: Final = 64


@dataclass(frozen=True, slots=True)
class Turnover:
    """Of one tenant. `lost`: blocks of its that were evicted, `lost_to_others`: for somebody else who is known; `took`:
    blocks, whosever they were, that were evicted for it.
    """

    tenant: Tenant
    lost: int
    lost_to_others: int
    took: int


@dataclass(frozen=True, slots=True)
class TenantEvictions:
    """`num`: evictions in all. `tenants`: those of most, `num_others` further ones are left out. `pairs`: (who lost,
    who took, blocks), both known, not the same. `lost_not_told`, `took_not_told`: of requests that tell no tenant;
    `lost_unknown`, `took_unknown`: no event read tells whose.
    """

    num: int
    tenants: tuple[Turnover, ...]
    num_others: int
    pairs: tuple[tuple[Tenant, Tenant, int], ...]
    lost_not_told: int
    lost_unknown: int
    took_not_told: int
    took_unknown: int


def evictions_by_tenant(room: RoomMade, names: Mapping[int, Name], by: ToldBy | None = None) -> TenantEvictions:
    """names: of all who allocated; who has none is not known."""
    labels, tenants_of = labelled(names, by)
    codes, known = _codes(np.concatenate([room.lost, room.took]), labels)
    lost, took = codes[: len(room.lost)], codes[len(room.lost) :]
    tenants = [tenants_of[word] for word in known]
    is_other = (lost >= FIRST) & (took >= FIRST) & (lost != took)
    size = FIRST + len(tenants)
    all_lost, all_took, to_others = (np.bincount(one, minlength=size).tolist() for one in (lost, took, lost[is_other]))
    told = [
        Turnover(tenant, all_lost[code], to_others[code], all_took[code]) for code, tenant in enumerate(tenants, FIRST)
    ]
    told = sorted((one for one in told if one.lost or one.took), key=_most_first)
    return TenantEvictions(
        len(room.t),
        tuple(told[:MOST_TOLD]),
        max(0, len(told) - MOST_TOLD),
        _pairs(lost[is_other], took[is_other], tenants),
        all_lost[NOT_TOLD],
        all_lost[UNKNOWN],
        all_took[NOT_TOLD],
        all_took[UNKNOWN],
    )


def _codes(ordinals: U4, labels: Mapping[int, Name]) -> tuple[U4, list[str]]:
    """Each as one that holds a block of its own."""
    each = np.arange(len(ordinals), dtype=np.uint32)
    known = {ordinal: label for ordinal, label in labels.items() if ordinal != NO_ORDINAL}
    return codes_of_blocks(np.zeros(len(ordinals), bool), each, ordinals, known)


def _pairs(lost: U4, took: U4, tenants: list[Tenant]) -> tuple[tuple[Tenant, Tenant, int], ...]:
    keys, counts = np.unique(lost.astype(np.uint64) << np.uint64(32) | took, return_counts=True)
    most = np.lexsort((keys, -counts))[:MOST_TOLD]
    found = []
    for key, blocks in zip(keys[most].tolist(), counts[most].tolist(), strict=True):
        found.append((tenants[(key >> 32) - FIRST], tenants[(key & 0xFFFFFFFF) - FIRST], blocks))
    return tuple(found)


def _most_first(one: Turnover) -> tuple[int, str, str]:
    return -(one.lost + one.took), one.tenant.told_by, one.tenant.name
