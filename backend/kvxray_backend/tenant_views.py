"""The answers of `/api/tenants`, made of what was counted."""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.columns import U4, distinct

from kvxray_backend.analysis.block_owners import BlockOwners
from kvxray_backend.analysis.tenant_evictions import Turnover, evictions_by_tenant
from kvxray_backend.analysis.tenant_shares import HeldBlocks, Shares, Tenant, ToldBy
from kvxray_backend.figure import Certainty
from kvxray_backend.moments import Point, iso_time
from kvxray_backend.tenant_types import (
    EvictedForView,
    SharesView,
    TenantEvictionsView,
    TenantShareView,
    TenantTurnoverView,
    TenantView,
)

WINDOW_NS: Final = 60_000_000_000
MAX_RUNS: Final = 1 << 16


def shares_view(shares: Shares, certainty: Certainty) -> SharesView:
    total = shares.total
    return SharesView(
        certainty=certainty,
        total=total,
        tenants=[
            TenantShareView(tenant=one.name, told_by=one.told_by, amount=amount, share=amount / total)
            for one, amount in shares.tenants
        ],
        others=shares.others,
        num_others=shares.num_others,
        several=shares.several,
        not_told=shares.not_told,
        unknown=shares.unknown,
    )


def evictions_view(
    owners: BlockOwners, told: HeldBlocks, epoch: int, now_ns: int, by: ToldBy | None
) -> TenantEvictionsView:
    """now_ns: of the moment that is asked about. Of the minute before it, or of what was read of it."""
    begin_ns = max(now_ns - WINDOW_NS, owners.since_ns - 1)
    found = evictions_by_tenant(owners.room_made.since(begin_ns), {**told.names, **owners.names}, by)
    return TenantEvictionsView(
        certainty="derived",
        since=iso_time(begin_ns),
        until=str(Point(epoch, owners.until_seq)),
        until_time=iso_time(owners.until_ns),
        seconds=max(0, now_ns - begin_ns) / 1e9,
        num=found.num,
        tenants=[_turnover(one) for one in found.tenants],
        num_others=found.num_others,
        pairs=[EvictedForView(lost=_who(lost), took=_who(took), blocks=num) for lost, took, num in found.pairs],
        lost_not_told=found.lost_not_told,
        lost_unknown=found.lost_unknown,
        took_not_told=found.took_not_told,
        took_unknown=found.took_unknown,
    )


def runs_of(ids: U4) -> tuple[list[tuple[int, int]], int]:
    """Ids as runs of such that follow each other, and how many ids are beyond the most runs that are told."""
    ids = distinct(ids).astype(np.int64)
    firsts = np.flatnonzero(np.append(True, np.diff(ids) != 1)[: len(ids)])
    lengths = np.diff(firsts, append=len(ids))
    told = [(first, num) for first, num in zip(ids[firsts].tolist(), lengths.tolist(), strict=True)]
    return told[:MAX_RUNS], int(lengths[MAX_RUNS:].sum())


def _turnover(one: Turnover) -> TenantTurnoverView:
    who = one.tenant
    return TenantTurnoverView(
        tenant=who.name, told_by=who.told_by, lost=one.lost, lost_to_others=one.lost_to_others, took=one.took
    )


def _who(tenant: Tenant) -> TenantView:
    return TenantView(tenant=tenant.name, told_by=tenant.told_by)
