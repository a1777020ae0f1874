"""`/api/health`: how the backend itself is."""

from __future__ import annotations

from importlib import metadata

from fastapi import APIRouter

from kvxray_backend.api_types import DatabaseView, HealthView
from kvxray_backend.routes.dependencies import BackendDep

router = APIRouter(tags=["backend"])


@router.get("/health")
def health(backend: BackendDep) -> HealthView:
    """Whether the backend is well, and how much it has stored."""
    stats, failed = backend.log.stats(), backend.log.failed
    database = DatabaseView(
        url_scheme=backend.database.url_scheme,
        schema=backend.database.schema_revision,
        queue_bytes=stats.queue_bytes,
        stored_events=stats.stored_events,
        failed=failed,
    )
    return HealthView(
        status="degraded" if failed else "ok",
        version=metadata.version("kvxray"),
        uptime_s=round(backend.uptime_s, 3),
        sources=len(backend.sources) + len(backend.observed.all),
        viewers=backend.num_viewers,
        database=database,
    )
