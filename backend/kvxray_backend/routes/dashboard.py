"""`/api/dashboard`: a dashboard of Grafana for the metrics of `/metrics`, to import as it is."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from kvxray_backend.exporter.dashboard import dashboard
from kvxray_backend.routes.dependencies import BackendDep

router = APIRouter(tags=["alerts"])


@router.get("/dashboard")
def grafana_dashboard(backend: BackendDep) -> dict[str, Any]:
    """A dashboard for Grafana 10 and later; its panels lead to the moment here, at KVXRAY_PUBLIC_URL if it is set."""
    return dashboard(backend.settings.public_url)
