"""`/api/engines`: every engine, of every make, a line each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import HTTPConnection

from kvxray_backend.fleet import Fleet
from kvxray_backend.fleet_types import EnginesView
from kvxray_backend.routes.overview import OverviewDep

router = APIRouter(tags=["engines"])


def get_fleet(connection: HTTPConnection, overview: OverviewDep) -> Fleet:
    """That of the running backend, made when it is first asked for."""
    kept = getattr(connection.app.state, "fleet", None)
    if not isinstance(kept, Fleet) or kept.overview is not overview:
        kept = connection.app.state.fleet = Fleet(overview)
    return kept


@router.get("/engines")
def engines(fleet: Annotated[Fleet, Depends(get_fleet)]) -> EnginesView:
    """Every engine with its state, its verdict, its figures and how much of it can be known."""
    return fleet.now()
