"""`/api/alerts`: what fires, what is over, and with what evidence."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query

from kvxray_backend.alert_types import AlertsView, AlertView
from kvxray_backend.alerts.alert_view import Asked, alert_view, alerts_view
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["alerts"])

MAX_LISTED: Final = 500
Name = Annotated[str, Query(max_length=200, description="Only of this one; empty: of any.")]


@router.get("/alerts")
def alerts(
    backend: BackendDep,
    state: Annotated[Literal["active", "over", "all"], Query(description="active, over or all.")] = "all",
    rule: Name = "",
    engine: Name = "",
    severity: Annotated[Literal["", "info", "warning", "critical"], Query(description="Only of this one.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="At most so many.")] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="So many are left out before.")] = 0,
) -> AlertsView:
    """Alerts, those that fire first; what is about to fire, and who is told."""
    return alerts_view(backend, Asked(state, limit, offset, rule, engine, severity))


@router.get("/alerts/{alert_id}")
def alert(
    backend: BackendDep, alert_id: Annotated[str, Path(max_length=64, description="Id of the alert.")]
) -> AlertView:
    """One alert with its evidence."""
    found = alert_view(backend, alert_id)
    if found is None:
        raise ApiError(404, "There is no such alert; it may be older than what is kept.")
    return found
