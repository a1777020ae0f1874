"""`/api/rules`: the alert rules there are, which are on, and rules of one's own."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.alert_types import RulesView, RuleView, TrialView
from kvxray_backend.alerts.own_rules import rules_in
from kvxray_backend.alerts.past_engines import FAMILIES, KnownEngine
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_book import KnownRule, NotHere
from kvxray_backend.alerts.rule_view import rule_view
from kvxray_backend.alerts.served import served_by_engines
from kvxray_backend.alerts.trial import TooMuch
from kvxray_backend.alerts.trial_desk import Busy, when_ns
from kvxray_backend.backend import Backend
from kvxray_backend.routes.bodies import BoundedRoute
from kvxray_backend.routes.dependencies import BackendDep
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["rules"], route_class=BoundedRoute)

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


class Asked(BaseModel):
    """A rule that there is, or one as somebody wrote it, and the stretch that it is tried on."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(default=None, max_length=64, description="Name of a rule.")
    text: str | None = Field(default=None, max_length=MAX_TEXT, description="YAML of one rule.")
    from_: str = Field(default="7d", alias="from", max_length=80, description="Since when: 7d, or an ISO-8601 time.")
    to: str = Field(default="now", max_length=80, description="Until when: now, an age, or an ISO-8601 time.")
    engine: str = Field(default="", max_length=200, description="Only of this engine; empty: of all.")


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


@router.post("/rules/try")
def try_rule(backend: BackendDep, asked: Annotated[Asked, Body()]) -> TrialView:
    """When a rule would have fired: over what is stored, minute by minute, as the watch looks. Nothing is changed."""
    now_ns = backend.clock.wall_ns()
    from_ns, to_ns = when_ns(asked.from_, now_ns), min(when_ns(asked.to, now_ns), now_ns)
    known = {one.name: KnownEngine(one.serves & FAMILIES, one.model, one.role) for one in backend.alerts.watched()}
    try:
        return backend.trials.run(_asked_for(backend, asked), from_ns, to_ns, engine=asked.engine, known=known)
    except (Busy, TooMuch) as error:
        raise ApiError(409 if isinstance(error, Busy) else 503, str(error)) from error


def _asked_for(backend: Backend, asked: Asked) -> Rule:
    if (asked.name is None) == (asked.text is None):
        raise ApiError(400, "Name a rule, or write one: one of the two.")
    if asked.name is not None:
        rule = backend.alerts.rule_book.rule_of(asked.name)
        if rule is None:
            raise no_such_rule(asked.name)
        return rule
    found = rules_in((asked.text or "").encode())
    if len(found) != 1:
        raise ApiError(400, f"There are {len(found)} rules in it: try one at a time.")
    return found[0]


def no_such_rule(name: str) -> ApiError:
    return ApiError(404, f"There is no rule {name!r}; /api/rules lists them.")


def _view(backend: Backend, known: KnownRule) -> RuleView:
    served = served_by_engines(backend.alerts, known.rule, is_on=known.is_on)
    return rule_view(known.rule, origin=known.origin, is_on=known.is_on, text=known.text, served=served)
