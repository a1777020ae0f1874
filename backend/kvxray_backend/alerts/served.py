"""How a rule stands for each engine: what it says of it, or why nothing, and what would change that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kvxray_backend.alert_types import ServedView
from kvxray_backend.alerts.alert_state import AlertState
from kvxray_backend.alerts.alert_watch import AlertWatch
from kvxray_backend.alerts.expression import UpFor, signals_in, walk
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_needs import needs_of
from kvxray_backend.alerts.watched import Subject, Watched, subjects_of

_METRICS: Final = frozenset(("vllm", "sglang", "trtllm", "dynamo", "lmcache", "router"))


def served_by_engines(watch: AlertWatch, rule: Rule, *, is_on: bool) -> list[ServedView]:
    engines = watch.watched()
    if not is_on:
        able = {one.name for one in engines if one.can_tell(rule)}
        return [_not_able(rule, one) for one in engines if one.name not in able]
    found = [_stands(rule, subject, watch.state_of(rule.name, subject.name)) for subject in subjects_of(rule, engines)]
    return [*found, *(_not_able(rule, one) for one in engines if not one.can_tell(rule))]


def _stands(rule: Rule, subject: Subject, state: AlertState | None) -> ServedView:
    if state is None or state.unknown_since_s is not None:
        is_firing = state is not None and state.is_firing
        why = _why(rule, subject.engines)
        return ServedView(engine=subject.name, state="firing" if is_firing else "unknown", why=why)
    if state.is_firing:
        return ServedView(engine=subject.name, state="firing", why="")
    return ServedView(engine=subject.name, state="pending" if state.state == "pending" else "inactive", why="")


def _why(rule: Rule, engines: Sequence[Watched]) -> str:
    """Why it is not known now."""
    needed = signals_in(rule.when)
    for engine in engines:
        told = engine.told() if needed else frozenset()
        if told is None:
            return f"No metrics of {engine.name} were read yet."
        missing = [name for name in needed if name not in told]
        if missing:
            return f"The metrics of {engine.name} do not tell {_listed(missing)}."
    if any(isinstance(node, UpFor) for node in walk(rule.when)) and any(
        one.evidence.started_s is None for one in engines
    ):
        return "The metrics do not tell when the process began (process_start_time_seconds)."
    if needed:
        return "Too little is known of the time that it looks back on, or metrics are not read just now."
    return "Nobody has looked yet."


def _not_able(rule: Rule, engine: Watched) -> ServedView:
    return ServedView(
        engine=engine.name, state="not_observable", why=f"It needs {needs_of(rule)}{_remedy(rule, engine)}."
    )


def _remedy(rule: Rule, engine: Watched) -> str:
    """What would make it observable, where something would."""
    if engine.serves == {"blocks"}:
        return ""
    has_metrics, has_events = bool(engine.serves & _METRICS), "events" in engine.serves
    if not has_metrics and _METRICS & set(rule.served_by):
        return ": give the engine its metrics (--metrics)"
    if not has_events and "events" in rule.served_by:
        return ": give the engine its events (--events)"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
