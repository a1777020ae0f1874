"""`/api/link`: from the labels and the time of a panel, or of an alert elsewhere, to the page at that moment."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse

from kvxray_backend.alert_types import LinkView
from kvxray_backend.alerts.links import source_link, whole_link
from kvxray_backend.backend import Backend
from kvxray_backend.exporter.link import NotOne, Place, find_place, moment_text
from kvxray_backend.moments import Moment
from kvxray_backend.residency.foreign_source import all_foreign, find_foreign, of_blocks
from kvxray_backend.residency.source_view import labels_of
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["alerts"])


def _label(what: str) -> object:
    return Query(description=f"{what} of the engine.", max_length=256)


@router.get("/link", responses={303: {"description": "With go=1: to the page."}}, response_model=LinkView)
def link(
    backend: BackendDep,
    engine: Annotated[str, _label("The name")] = "",
    source: Annotated[str, _label("One source")] = "",
    cluster: Annotated[str, _label("The label cluster")] = "",
    namespace: Annotated[str, _label("The label namespace")] = "",
    pod: Annotated[str, _label("The label pod")] = "",
    node: Annotated[str, _label("The label node")] = "",
    at: Annotated[str, Query(description="The moment: live, ISO-8601, EPOCH.SEQ, or Unix time in s or ms.")] = "",
    go: Annotated[bool, Query(description="Leads there, instead of telling the address.")] = False,
) -> LinkView | RedirectResponse:
    """The address of the page that shows this engine at this moment; with `go=1` leads there."""
    asked = {"engine": engine, "source": source, "cluster": cluster, "namespace": namespace, "pod": pod, "node": node}
    try:
        place = find_place(_places(backend), asked)
    except NotOne as error:
        raise ApiError(409 if error.is_many else 404, str(error)) from error
    moment = moment_text(at)
    parsed = Moment.parse(moment)
    path = source_link(place.source, moment)
    if go:
        # Relative to /api/link, so that whatever stands before the server finds its way.
        return RedirectResponse(f"../{path.removeprefix('./')}", status_code=303, headers={"cache-control": "no-store"})
    _check_moment(backend, place.source, parsed)
    url = whole_link(backend.settings, path) if backend.settings.public_url else path
    return LinkView(url=url, source=place.source, at=moment)


def _places(backend: Backend) -> list[Place]:
    """What is only stored is known by its name alone: its labels are not worth reading all of it."""
    found = []
    for name, source in of_blocks(backend).items():
        block_map = source.live.block_map if source.native is not None else None
        found.append(Place(name, name, dict(block_map.descriptor.labels) if block_map is not None else {}))
    for foreign in all_foreign(backend):
        labels = {}
        if foreign.engine is not None:
            with foreign.engine.lock:
                labels = labels_of(foreign.engine, foreign.rank)
        found.append(Place(foreign.name, foreign.engine_name, labels))
    return found


def _check_moment(backend: Backend, source: str, moment: Moment) -> None:
    """What the page would say of a moment of which nothing is stored. Raises `NotStored`. What metrics alone tell has
    no events that could be missing.
    """
    foreign = find_foreign(backend, source)
    if not moment.is_live and (foreign is None or foreign.kind == "hashes"):
        if foreign is None:
            backend.settle(backend.sources[source], moment)
        backend.past.point_of(source, moment)
