"""`/api/engines`: every engine, of every make, a line each."""

from __future__ import annotations

from fastapi import APIRouter

from kvxray_backend.fleet import engines_view
from kvxray_backend.fleet_types import EnginesView
from kvxray_backend.routes.overview import OverviewDep

router = APIRouter(tags=["engines"])


@router.get("/engines")
def engines(overview: OverviewDep) -> EnginesView:
    """Every engine with its state, its verdict, its figures and how much of it can be known."""
    return engines_view(overview)
