"""`/api/tenants`: how much of what is held and of what is cached is whose, and which blocks or hashes those are."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Depends, Query
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.schema import Name
from starlette.requests import HTTPConnection

from kvxray_backend.analysis.tenant_shares import (
    Bools,
    HeldBlocks,
    Tenancy,
    Tenant,
    ToldBy,
    copied,
    shares_of_blocks,
    tenancy_of_blocks,
    told_by_any,
)
from kvxray_backend.backend import Source
from kvxray_backend.block_tenants import NOBODY, NOT_TOLD, SEVERAL, UNKNOWN
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import LIVE, Moment, iso_time, iso_time_or_none
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource
from kvxray_backend.residency.tenants import shares_of_hashes, tenancy_of_hashes
from kvxray_backend.routes.dependencies import (
    AnySourceDep,
    BackendDep,
    DeskDep,
    MomentDep,
    get_backend,
    name_of,
    not_joined,
    state_of,
)
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.tenant_desk import TenantDesk
from kvxray_backend.tenant_types import TenantBlocksView, TenantsView, Whose
from kvxray_backend.tenant_views import evictions_view, runs_of, shares_view
from kvxray_backend.views import last_seq_of

router = APIRouter(tags=["state"])

By = Annotated[
    ToldBy | None, Query(description="What makes a tenant; left out: of each name the first of these that it tells.")
]
_CODES = {"several": (SEVERAL,), "not_told": (NOT_TOLD,), "unknown": (UNKNOWN, NOBODY)}


def get_tenant_desk(connection: HTTPConnection) -> TenantDesk:
    """That of the running backend, made when it is first asked for."""
    backend, kept = get_backend(connection), getattr(connection.app.state, "tenant_desk", None)
    if not isinstance(kept, TenantDesk) or kept.backend is not backend:
        kept = connection.app.state.tenant_desk = TenantDesk(backend)
    return kept


TenantDeskDep = Annotated[TenantDesk, Depends(get_tenant_desk)]


@router.get("/tenants")
def tenants(
    backend: BackendDep,
    desk: DeskDep,
    allocations: TenantDeskDep,
    source: AnySourceDep,
    moment: MomentDep,
    by: By = None,
) -> TenantsView:
    """How much is held and cached for each tenant, as its requests or stores name it: what several share is counted
    once. And who pushed whom out within a minute.
    """

    def make() -> TenantsView:
        if isinstance(source, Source):
            return _of_blocks(state_of(backend, source, moment), allocations, by)
        return _of_hashes(desk, source, moment, by)

    return allocations.shares.get((name_of(source), moment, by), make)


@router.get("/tenants/blocks")
def blocks_of_tenant(
    backend: BackendDep,
    desk: DeskDep,
    allocations: TenantDeskDep,
    source: AnySourceDep,
    moment: MomentDep,
    whose: Annotated[Whose, Query(description="What tells the tenant: tenant, salt, lora, session; or why none.")],
    tenant: Annotated[str, Query(description="The tenant, where `whose` is what tells one.", max_length=4096)] = "",
    by: By = None,
) -> TenantBlocksView:
    """Ids of the blocks that are held or cached for one tenant alone, or ordinals of the hashes."""

    def make() -> TenantBlocksView:
        if isinstance(source, Source):
            state = state_of(backend, source, moment)
            told, seq = _read(state)
            whole = tenancy_of_blocks(told, allocations.owners(state), by)
            here = np.flatnonzero(told.is_held | told.is_cached).astype(np.uint32)
            return _blocks_view(
                source.live.source, seq, "blocks", here[_is_of(whole.codes[here], whole, whose, tenant)]
            )
        then, columns, names = _stored_by(desk, source, moment)
        here, whole = tenancy_of_hashes(columns, names, by)
        return _blocks_view(source.name, then.seq, "hashes", here[_is_of(whole.codes, whole, whose, tenant)])

    return allocations.blocks.get((name_of(source), moment, by, whose, tenant), make)


def _blocks_view(source: str, seq: str | None, unit: Literal["blocks", "hashes"], ids: U4) -> TenantBlocksView:
    runs, left_out = runs_of(ids)
    return TenantBlocksView(source=source, seq=seq, unit=unit, num=len(ids), runs=runs, left_out=left_out)


def _is_of(codes: U4, whole: Tenancy, whose: Whose, tenant: str) -> Bools:
    if whose == "several" or whose == "not_told" or whose == "unknown":
        return np.isin(codes, _CODES[whose])
    code = whole.code_of(Tenant(whose, tenant))
    found: Bools = np.zeros(len(codes), bool) if code is None else codes == code
    return found


def _read(state: LiveState) -> tuple[HeldBlocks, str | None]:
    with state.lock:
        if state.block_map is None:
            raise not_joined(state)
        return copied(state.block_map), last_seq_of(state)


def _of_blocks(state: LiveState, allocations: TenantDesk, by: ToldBy | None) -> TenantsView:
    with state.lock:
        told, seq = _read(state)
        now_ns = (state.engine_time.t_ns if state.at == LIVE else 0) or state.state_ns
        epoch = state.epoch
    owners = allocations.owners(state)
    shares = shares_of_blocks(told, owners, by)
    names = told.names if owners is None else {**owners.names, **told.names}
    is_told = owners is not None and epoch is not None
    return TenantsView(
        source=state.source,
        seq=seq,
        time=iso_time_or_none(now_ns),
        unit="blocks",
        by=by,
        told=list(told_by_any(names)),
        held=shares_view(shares.held, "exact") if told.holders_known else None,
        cached=shares_view(shares.cached, "derived"),
        unknown_blocks=shares.unknown_blocks,
        evictions=evictions_view(owners, told, epoch, now_ns, by) if owners is not None and epoch is not None else None,
        no_evictions="" if is_told else "Nothing is stored of the time before that moment.",
    )


def _of_hashes(desk: ResidencyDesk, source: ForeignSource, moment: Moment, by: ToldBy | None) -> TenantsView:
    then, columns, names = _stored_by(desk, source, moment)
    here = set(np.unique(columns.names).tolist())
    return TenantsView(
        source=source.name,
        seq=then.seq,
        time=iso_time(columns.t_ns) if columns.t_ns else None,
        unit="hashes",
        by=by,
        told=list(told_by_any({ordinal: name for ordinal, name in names.items() if ordinal in here})),
        held=None,
        cached=shares_view(shares_of_hashes(columns, names, by), "derived"),
        unknown_blocks=0,
        evictions=None,
        no_evictions="An engine that tells of hashes does not tell for whom one was evicted.",
    )


def _stored_by(
    desk: ResidencyDesk, source: ForeignSource, moment: Moment
) -> tuple[ForeignMoment, ResidencyColumns, dict[int, Name]]:
    """What is cached then, and in whose names hashes were stored."""
    if source.kind == "metrics":
        raise ApiError(409, f"The engine {source.name} is known by its metrics alone: they name no tenants.")
    then = desk.at(source, moment)
    if then.columns is None:
        raise ApiError(503, f"Nothing has been heard of the source {source.name} yet; try again in a moment.")
    names = desk.names(source, moment, then.epoch)
    if names is None:
        raise ApiError(503, f"The engine {source.name} has just begun anew; try again in a moment.")
    return then, then.columns, names
