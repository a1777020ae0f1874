"""`kvxray alerts test`: rules tried on the event log, beside a running kvxray or without one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kvxray_engine.clock import SystemClock
from kvxray_storage.attached_engines import attached_engines
from kvxray_storage.database import Database

from kvxray_backend.alert_types import TrialView, WouldView
from kvxray_backend.alerts.past_engines import KnownEngine
from kvxray_backend.alerts.rule import Rule, Server
from kvxray_backend.alerts.trial_desk import TrialDesk, when_ns
from kvxray_backend.observed.spec import BadSpec, ObserveSpec, read_spec
from kvxray_backend.quantities import share_text
from kvxray_backend.settings import Settings

MAX_SECONDS = 600.0
MOST_SHOWN = 20


def try_rules(
    database: Database, settings: Settings, rules: Sequence[Rule], begin: str, end: str, engine: str
) -> Iterator[TrialView]:
    """Each in its turn. Raises `UserError`."""
    now_ns = SystemClock().wall_ns()
    from_ns, to_ns = when_ns(begin, now_ns), when_ns(end, now_ns)
    desk, known = TrialDesk(database, max_seconds=MAX_SECONDS), _known(database, settings)
    for rule in rules:
        yield desk.run(rule, from_ns, to_ns, engine=engine, known=known)


def as_json(views: Sequence[TrialView]) -> list[object]:
    return [view.model_dump(mode="json", by_alias=True) for view in views]


def as_text(view: TrialView) -> str:
    lines = [f"{view.rule}: {view.sentence}"]
    lines += [f"  {_line(one)}" for one in view.fired[:MOST_SHOWN]]
    if view.num_fired > MOST_SHOWN:
        lines.append(f"  and {view.num_fired - MOST_SHOWN:,} more before")
    lines += [
        f"  {one.engine}: known {share_text(one.known_share)} of the time. {one.why}" for one in view.engines if one.why
    ]
    return "\n".join(lines) + "\n"


def _line(one: WouldView) -> str:
    ended = f"until {one.ended}" if one.ended else "and goes on"
    return f"{one.fired} {ended}  {one.engine}" + (f"  {one.culprit}" if one.culprit else "")


def _known(database: Database, settings: Settings) -> dict[str, KnownEngine]:
    """Of engines that the settings name, or that somebody attached: what they are."""
    specs = [one for one in settings.engines if isinstance(one, ObserveSpec)]
    for row in attached_engines(database):
        try:
            specs.append(read_spec({**json.loads(row.spec), "name": row.name}))
        except (BadSpec, ValueError, TypeError):
            continue
    return {spec.name: KnownEngine(_families(spec), spec.labels.get("model", ""), spec.role) for spec in specs}


def _families(spec: ObserveSpec) -> frozenset[Server] | None:
    """A page of metrics may tell of several makes, so that only what has none is known to tell nothing."""
    return None if spec.metrics or spec.prometheus else frozenset()
