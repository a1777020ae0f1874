"""What routes are given: the backend, and the source and moment that a request asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from starlette.requests import HTTPConnection

from kvxray_backend.backend import Backend, Source
from kvxray_backend.moments import check_live
from kvxray_backend.routes.errors import ApiError


def get_backend(connection: HTTPConnection) -> Backend:
    """The running backend of the app that the request came to."""
    backend = getattr(connection.app.state, "backend", None)
    if not isinstance(backend, Backend):
        raise ApiError(503, "The backend is starting or stopping; try again.")
    return backend


BackendDep = Annotated[Backend, Depends(get_backend)]
SourceName = Annotated[str | None, Query(description="Name of the source; the first one when left out.")]


def find_source(backend: Backend, name: str | None) -> Source | None:
    """The source of that name, the first for None; None when there is none."""
    if name is None:
        return next(iter(backend.sources.values()), None)
    return backend.sources.get(name)


def get_source(backend: BackendDep, source: SourceName = None) -> Source:
    found = find_source(backend, source)
    if found is not None:
        return found
    if source is None:
        raise ApiError(404, "No source is configured; set KVXRAY_SOURCES, or start kvxray serve with --source.")
    raise ApiError(404, f"There is no source {source[:80]!r}; /api/sources lists them.")


def get_moment(at: Annotated[str, Query(description="The moment asked for; only live so far.")] = "live") -> str:
    check_live(at)
    return at


SourceDep = Annotated[Source, Depends(get_source)]
MomentDep = Annotated[str, Depends(get_moment)]


def not_joined(source: Source) -> ApiError:
    """The answer for a source without a state yet."""
    return ApiError(503, f"The source {source.live.source} has not been joined yet; try again in a moment.")
