"""`/api/sources`: what is followed, and how well."""

from __future__ import annotations

from fastapi import APIRouter

from kvxray_backend.api_types import SourcesView
from kvxray_backend.residency.foreign_source import of_blocks, sources_of, stored_only
from kvxray_backend.residency.source_view import foreign_source_view
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.views import source_view

router = APIRouter(tags=["sources"])


@router.get("/sources")
def sources(backend: BackendDep) -> SourcesView:
    """Every source with its connection, its losses and its epochs: those of blocks first, then those that are watched,
    then those of hashes that are only stored.
    """
    watched = [source for engine in backend.observed.all for source in sources_of(engine)]
    foreign = [foreign_source_view(backend.database, source) for source in [*watched, *stored_only(backend)]]
    return SourcesView(sources=[*(source_view(source.live) for source in of_blocks(backend).values()), *foreign])
