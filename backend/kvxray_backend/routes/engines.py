"""`/api/engines`: engines of others are attached, removed, and tried before."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request

from kvxray_backend.attach_types import AttachedView, ConnectionView
from kvxray_backend.observed.attaching import NotOfThePage
from kvxray_backend.observed.origin import check_origin
from kvxray_backend.observed.plain_data import read_plain
from kvxray_backend.observed.registry import NameTaken
from kvxray_backend.observed.spec import ObserveSpec, read_spec
from kvxray_backend.routes.bodies import read_body
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["engines"])

MAX_BODY_BYTES: Final = 64 << 10
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": ObserveSpec.model_json_schema(ref_template="#/components/{model}")}},
    }
}


async def get_spec(request: Request) -> ObserveSpec:
    """The engine that the body describes, as somebody on the page may. Raises `BadSpec`."""
    too_long = f"An engine is described in at most {MAX_BODY_BYTES >> 10} KiB."
    spec = read_spec(read_plain(await read_body(request, MAX_BODY_BYTES, too_long), ".json"))
    check_origin(spec, "page")
    return spec


SpecDep = Annotated[ObserveSpec, Depends(get_spec)]
EngineName = Annotated[str, Path(max_length=64, description="Name of the engine.")]


@router.post("/engines", status_code=201, openapi_extra=_BODY)
def attach(backend: BackendDep, spec: SpecDep) -> AttachedView:
    """Watches an engine from now on, and after restarts."""
    try:
        backend.attaching.attach(spec)
    except NameTaken as error:
        raise ApiError(409, str(error), field=error.field) from error
    return AttachedView(name=spec.name)


@router.delete("/engines/{name}", status_code=204)
def remove(backend: BackendDep, name: EngineName) -> None:
    """Watches it no longer; what was stored stays."""
    try:
        is_removed = backend.attaching.remove(name)
    except NotOfThePage as error:
        raise ApiError(409, str(error)) from error
    if not is_removed:
        raise ApiError(404, f"There is no engine {name!r}; /api/engines lists them.")


@router.post("/engines/test", openapi_extra=_BODY)
def try_connection(backend: BackendDep, spec: SpecDep) -> ConnectionView:
    """Tries whether an engine can be heard and its metrics read, for at most six seconds, and says what would be known
    of it. Nothing is attached.
    """
    return backend.connection_tests.run(spec)
