"""What a look at the rules sees of the engines that are watched: each with its evidence, and who tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvxray_backend.alerts.alert import AlertMoment
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.rule import Rule, Server
from kvxray_backend.analysis.finding import Finding

MomentOf = Callable[[Finding | None], AlertMoment]
"""Where the page shows it now; of a finding, in the source that it was found in."""


def _nowhere(finding: Finding | None) -> AlertMoment:
    return AlertMoment(source="", epoch=None, seq=None, time_ns=0)


@dataclass(frozen=True, slots=True)
class Watched:
    """One engine. serves: who tells of it, or is to, once it is heard. told: which signals its metrics tell now; None:
    they were not read.
    """

    name: str
    evidence: Evidence
    serves: frozenset[Server]
    labels: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    role: str = "both"
    told: Callable[[], frozenset[str] | None] = lambda: None
    moment: MomentOf = _nowhere

    def can_tell(self, rule: Rule) -> bool:
        return not self.serves.isdisjoint(rule.served_by)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule is about: an engine, or all of one model and role."""

    name: str
    engines: tuple[Watched, ...]
    labels: Mapping[str, str]
    moment: MomentOf = _nowhere

    @property
    def evidence(self) -> Sequence[Evidence]:
        return [one.evidence for one in self.engines]


def subjects_of(rule: Rule, engines: Iterable[Watched]) -> list[Subject]:
    """Those that the rule can be told of."""
    able = [one for one in engines if one.can_tell(rule)]
    if not rule.is_of_fleet:
        return [Subject(one.name, (one,), one.labels, one.moment) for one in able]
    fleets: dict[str, list[Watched]] = {}
    for one in able:
        fleets.setdefault(fleet_of(one), []).append(one)
    return [
        Subject(name, tuple(members), {"model": members[0].model, "role": members[0].role})
        for name, members in fleets.items()
    ]


def fleet_of(engine: Watched) -> str:
    """The name of the fleet that it belongs to: no name of an engine has a space."""
    return f"{engine.model or 'model not told'} ({engine.role})"
