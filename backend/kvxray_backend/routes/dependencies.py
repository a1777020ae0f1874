"""What routes are given: the backend, and the source and moment that a request asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query
from starlette.requests import HTTPConnection

from kvxray_backend.backend import Backend, Source
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import LIVE, Moment
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignSource, find_foreign, of_blocks
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
    """The source of blocks of that name, the first for None; None when there is none."""
    sources = of_blocks(backend) if name is None else backend.sources
    return next(iter(sources.values()), None) if name is None else sources.get(name)


def get_any_source(backend: BackendDep, source: SourceName = None) -> Source | ForeignSource:
    """Whatever it tells of."""
    foreign = find_foreign(backend, source)
    if foreign is not None:
        return foreign
    found = find_source(backend, source)
    if found is not None:
        # What is only stored is read now, in a thread, and not where it would hold up the event loop.
        found.prepare()
        return found
    if source is None:
        raise ApiError(404, "No source is configured; set KVXRAY_SOURCES, or start kvxray serve with --source.")
    raise no_such_source(source)


AnySourceDep = Annotated[Source | ForeignSource, Depends(get_any_source)]


def name_of(source: Source | ForeignSource) -> str:
    return source.name if isinstance(source, ForeignSource) else source.live.source


def get_source(source: AnySourceDep) -> Source:
    if isinstance(source, ForeignSource):
        raise tells_no_blocks(source)
    return source


def get_foreign(source: AnySourceDep) -> ForeignSource:
    if isinstance(source, Source):
        raise ApiError(409, f"The source {source.live.source} tells of blocks, not of hashes: ask /api/state.")
    return source


def no_such_source(name: str) -> ApiError:
    return ApiError(404, f"There is no source {name[:80]!r}; /api/sources lists them.")


def tells_no_blocks(source: ForeignSource) -> ApiError:
    if source.kind == "metrics":
        return ApiError(409, f"The engine {source.name} is known by its metrics alone: ask /api/signals.")
    return ApiError(409, f"The source {source.name} tells of hashes, not of blocks: ask /api/residency.")


def get_desk(connection: HTTPConnection, backend: BackendDep) -> ResidencyDesk:
    """That of the running backend, made when it is first asked for."""
    kept = getattr(connection.app.state, "residency_desk", None)
    if not isinstance(kept, ResidencyDesk) or kept.backend is not backend:
        kept = connection.app.state.residency_desk = ResidencyDesk(backend)
    return kept


SourceDep = Annotated[Source, Depends(get_source)]
ForeignDep = Annotated[ForeignSource, Depends(get_foreign)]
DeskDep = Annotated[ResidencyDesk, Depends(get_desk)]
MomentText = Annotated[str, Query(description="The moment: live, EPOCH.SEQ (just after that event), or ISO-8601.")]


def get_moment(at: MomentText = LIVE) -> Moment:
    return Moment.parse(at)


MomentDep = Annotated[Moment, Depends(get_moment)]


def get_state(backend: BackendDep, source: SourceDep, moment: MomentDep) -> LiveState:
    """The state that a request is about: the present one, or one of the past."""
    return state_of(backend, source, moment)


def state_of(backend: Backend, source: Source, moment: Moment) -> LiveState:
    """The present state of a source, or one of the past. Raises `NotStored`."""
    return source.live if moment.is_live else backend.past_at(source, moment)


StateDep = Annotated[LiveState, Depends(get_state)]


def not_joined(state: LiveState) -> ApiError:
    """The answer for a source without a state: yet, or any more."""
    if state.absence:
        return ApiError(404, state.absence)
    return ApiError(503, f"The source {state.source} has not been joined yet; try again in a moment.")
