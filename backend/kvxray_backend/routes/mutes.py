"""`/api/mutes`: nobody is notified of a rule or an engine until a time. An Alertmanager keeps silences instead."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Body, Path
from kvxray_engine.errors import UserError
from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.alert_types import MuteView
from kvxray_backend.delivery.mute_desk import mute_view
from kvxray_backend.moments import Moment
from kvxray_backend.quantities import parse_age
from kvxray_backend.routes.bodies import BoundedRoute
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["alerts"], route_class=BoundedRoute)

MAX_NOTE: Final = 500
MAX_NAME: Final = 200
LONGEST_S: Final = 366 * 86_400


class NewMute(BaseModel):
    """What is muted, and until when."""

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(default="", max_length=MAX_NAME, description="The rule; empty: any.")
    engine: str = Field(default="", max_length=MAX_NAME, description="The engine; empty: any.")
    for_: str = Field(default="", alias="for", max_length=20, description="How long, such as 2h; or `until`.")
    until: str = Field(default="", max_length=40, description="Its end, an ISO-8601 time; or `for`.")
    note: str = Field(default="", max_length=MAX_NOTE, description="Why.")


@router.post("/mutes", status_code=201)
def add(backend: BackendDep, mute: Annotated[NewMute, Body()]) -> MuteView:
    """Mutes a rule, an engine, or a rule of an engine."""
    if not backend.delivery.can_mute:
        raise ApiError(409, "An Alertmanager is set, so that silences are kept there: make one on its page.")
    if not mute.rule and not mute.engine:
        raise ApiError(400, "Name the rule, the engine, or both; without, every alert would be muted.", "rule")
    now_ns = backend.clock.wall_ns()
    made = backend.delivery.muting.add(mute.rule, mute.engine, _until_ns(mute, now_ns), mute.note)
    return mute_view(made)


@router.delete("/mutes/{mute_id}", status_code=204)
def remove(backend: BackendDep, mute_id: Annotated[str, Path(max_length=64, description="Id of the mute.")]) -> None:
    """Ends a mute: what still fires is told now."""
    if not backend.delivery.muting.end(mute_id):
        raise ApiError(404, "There is no such mute; it may have ended already.")


def _until_ns(mute: NewMute, now_ns: int) -> int:
    if bool(mute.for_) == bool(mute.until):
        raise ApiError(400, "Say how long with `for`, such as 2h, or its end with `until`.", "for")
    until_ns = _after(mute.for_, now_ns) if mute.for_ else _time(mute.until)
    field = "for" if mute.for_ else "until"
    if until_ns <= now_ns:
        raise ApiError(400, "A mute must end in the future.", field)
    if until_ns > now_ns + LONGEST_S * 1_000_000_000:
        raise ApiError(400, "A mute ends within a year; a rule that is never wanted can be switched off.", field)
    return until_ns


def _after(text: str, now_ns: int) -> int:
    try:
        seconds = parse_age(text)
    except ValueError:
        seconds = None
    if seconds is None:
        raise ApiError(400, f"{text!r} is not a time such as 30m, 2h or 1d.", "for")
    return now_ns + seconds * 1_000_000_000


def _time(text: str) -> int:
    try:
        moment = Moment.parse(text)
    except UserError as error:
        raise ApiError(400, str(error), "until") from error
    if moment.begin_ns is None:
        raise ApiError(400, "Write the end of a mute as an ISO-8601 time.", "until")
    return moment.begin_ns
