"""`/api/overview`: whether each cache is healthy and, if not, whether it is KV, compute, queue or transfer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import HTTPConnection

from kvxray_backend.overview import Overview
from kvxray_backend.overview_types import OverviewView
from kvxray_backend.residency.foreign_source import find_foreign
from kvxray_backend.routes.dependencies import BackendDep, DeskDep, MomentDep, no_such_source

router = APIRouter(tags=["overview"])


def get_overview(connection: HTTPConnection, backend: BackendDep, desk: DeskDep) -> Overview:
    """That of the running backend, made when it is first asked for."""
    kept = getattr(connection.app.state, "overview", None)
    if not isinstance(kept, Overview) or kept.backend is not backend:
        kept = connection.app.state.overview = Overview(backend, desk)
    return kept


OverviewDep = Annotated[Overview, Depends(get_overview)]


@router.get("/overview")
def overview(
    overview: OverviewDep,
    moment: MomentDep,
    source: Annotated[str | None, Query(description="The source that EPOCH.SEQ is of; others are of its time.")] = None,
) -> OverviewView:
    """Every source with its verdict and the figures it rests on, the worst first."""
    known = source is None or source in overview.backend.sources or find_foreign(overview.backend, source) is not None
    if source is not None and not known:
        raise no_such_source(source)
    return overview.now() if moment.is_live else overview.at(moment, source)
