"""`/api/sources`: what is followed, and how well."""

from __future__ import annotations

from fastapi import APIRouter

from kvxray_backend.api_types import SourcesView
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.views import source_view

router = APIRouter(tags=["sources"])


@router.get("/sources")
def sources(backend: BackendDep) -> SourcesView:
    """Every source with its connection, its losses and its epochs."""
    return SourcesView(sources=[source_view(source.live) for source in backend.sources.values()])
