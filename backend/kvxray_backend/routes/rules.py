"""`/api/rules`: the alert rules there are, which are on, and rules of one's own."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.alert_types import RulesView, RuleView
from kvxray_backend.alerts.rule_book import KnownRule, NotHere
from kvxray_backend.alerts.rule_view import rule_view
from kvxray_backend.alerts.served import served_by_engines
from kvxray_backend.backend import Backend
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["rules"])

MAX_TEXT: Final = 64 << 10
RuleName = Annotated[str, Path(max_length=64, description="Name of the rule.")]


class Switched(BaseModel):
    """Whether a rule is looked at."""

    model_config = ConfigDict(extra="forbid")

    is_on: bool = Field(description="Whether it is on.")


class NewRules(BaseModel):
    """Rules of one's own, as docs/rules says how to write them."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_TEXT, description="YAML: rules, a list.")
    is_on: bool = Field(default=True, description="Whether they are looked at from now on.")


@router.get("/rules")
def rules(backend: BackendDep) -> RulesView:
    """All rules, and how each stands for each engine."""
    watch = backend.alerts
    return RulesView(rules=[_view(backend, one) for one in watch.rules().values()], problems=watch.problems)


@router.put("/rules/{name}")
def switch(backend: BackendDep, name: RuleName, switched: Annotated[Switched, Body()]) -> RuleView:
    """Switches a rule on or off; its alerts end."""
    if not backend.alerts.rule_book.switch(name, is_on=switched.is_on):
        raise no_such_rule(name)
    return _view(backend, backend.alerts.rules()[name])


@router.post("/rules", status_code=201)
def add(backend: BackendDep, new: Annotated[NewRules, Body()]) -> list[RuleView]:
    """Keeps rules of one's own; one of that name that was written on the page is replaced."""
    try:
        names = backend.alerts.rule_book.add(new.text, is_on=new.is_on)
    except NotHere as error:
        raise ApiError(409, str(error)) from error
    known = backend.alerts.rules()
    return [_view(backend, known[name]) for name in names if name in known]


@router.delete("/rules/{name}", status_code=204)
def remove(backend: BackendDep, name: RuleName) -> None:
    """Removes a rule that was written on the page."""
    try:
        is_removed = backend.alerts.rule_book.remove(name)
    except NotHere as error:
        raise ApiError(409, str(error)) from error
    if not is_removed:
        raise no_such_rule(name)


def no_such_rule(name: str) -> ApiError:
    return ApiError(404, f"There is no rule {name!r}; /api/rules lists them.")


def _view(backend: Backend, known: KnownRule) -> RuleView:
    served = served_by_engines(backend.alerts, known.rule, is_on=known.is_on)
    return rule_view(known.rule, origin=known.origin, is_on=known.is_on, text=known.text, served=served)
