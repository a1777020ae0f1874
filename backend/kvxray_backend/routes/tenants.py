"""`/api/tenants`: how much of what is held and of what is cached is whose."""

from __future__ import annotations

from fastapi import APIRouter

from kvxray_backend.analysis.tenant_shares import Shares, copied, shares_of_blocks
from kvxray_backend.backend import Source
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Moment
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.residency.tenants import shares_of_hashes
from kvxray_backend.routes.dependencies import AnySourceDep, BackendDep, DeskDep, MomentDep, not_joined, state_of
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.tenant_types import SharesView, TenantShareView, TenantsView
from kvxray_backend.views import last_seq_of

router = APIRouter(tags=["state"])


@router.get("/tenants")
def tenants(backend: BackendDep, desk: DeskDep, source: AnySourceDep, moment: MomentDep) -> TenantsView:
    """How much is held and cached for each tenant, as its requests or stores name it: what several share is counted
    once.
    """
    if isinstance(source, Source):
        return _of_blocks(state_of(backend, source, moment))
    return _of_hashes(desk, source, moment)


def _of_blocks(state: LiveState) -> TenantsView:
    with state.lock:
        if state.block_map is None:
            raise not_joined(state)
        told, seq = copied(state.block_map), last_seq_of(state)
    shares = shares_of_blocks(told)
    return TenantsView(
        source=state.source,
        seq=seq,
        unit="blocks",
        held=_view(shares.held) if told.holders_known else None,
        cached=_view(shares.cached),
        unknown_blocks=shares.unknown_blocks,
    )


def _of_hashes(desk: ResidencyDesk, source: ForeignSource, moment: Moment) -> TenantsView:
    then = desk.at(source, moment)
    if source.kind == "metrics":
        raise ApiError(409, f"The engine {source.name} is known by its metrics alone: they name no tenants.")
    if then.columns is None:
        raise ApiError(503, f"Nothing has been heard of the source {source.name} yet; try again in a moment.")
    names = desk.names(source, moment, then.epoch)
    if names is None:
        raise ApiError(503, f"The engine {source.name} has just begun anew; try again in a moment.")
    return TenantsView(
        source=source.name,
        seq=then.seq,
        unit="hashes",
        held=None,
        cached=_view(shares_of_hashes(then.columns, names)),
        unknown_blocks=0,
    )


def _view(shares: Shares) -> SharesView:
    total = shares.total
    return SharesView(
        total=total,
        tenants=[
            TenantShareView(tenant=one.name, told_by=one.told_by, amount=amount, share=amount / total)
            for one, amount in shares.tenants
        ],
        others=shares.others,
        several=shares.several,
        not_told=shares.not_told,
        unknown=shares.unknown,
    )
