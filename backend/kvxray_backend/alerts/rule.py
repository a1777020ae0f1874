"""What an alert rule is: when it fires, for whom, what it says, what to do, and what a simpler rule gets wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from kvxray_backend.alerts.expression import (
    AmongEngines,
    Awake,
    Compare,
    Condition,
    FigureNow,
    Found,
    Recorded,
    UpFor,
    signals_in,
    walk,
)
from kvxray_backend.analysis.finding import Severity
from kvxray_backend.metrics.names import FAMILIES, Family
from kvxray_backend.metrics.signals import SIGNALS

Server = Literal["vllm", "sglang", "trtllm", "dynamo", "lmcache", "router", "events", "blocks"]
"""Who can tell what a rule needs: metrics of that family, events of hashes, or our own engine's events of blocks."""
SERVERS: tuple[Server, ...] = get_args(Server)


@dataclass(frozen=True, slots=True)
class Rule:
    """Times in seconds. for_s: how long it must hold before it fires. keep_firing_s: how long it goes on firing after
    it last held. served_by: who can tell what it needs. sentence: what is wrong, to a person; do: the steps, in order;
    trap: what the simpler rule gets wrong.
    """

    name: str
    severity: Severity
    when: Condition
    for_s: int
    served_by: tuple[Server, ...]
    sentence: str
    do: tuple[str, ...]
    trap: str
    keep_firing_s: int = 0
    is_of_fleet: bool = field(init=False, compare=False, default=False)
    """Whether it is about all engines of one model and role, rather than one; every look asks."""

    def __post_init__(self) -> None:
        is_of_fleet = any(isinstance(node, AmongEngines) for node in walk(self.when))
        object.__setattr__(self, "is_of_fleet", is_of_fleet)

    @property
    def is_of_metrics(self) -> bool:
        """Whether a Prometheus alone can tell it."""
        return not any(isinstance(node, Found | FigureNow) for node in walk(self.when))

    @property
    def has_hysteresis(self) -> bool:
        return any(isinstance(node, Compare) and node.clear is not None for node in walk(self.when))

    @property
    def families(self) -> tuple[Family, ...]:
        """Those among whom a Prometheus can tell it."""
        return tuple(family for family in FAMILIES if family in self.served_by) if self.is_of_metrics else ()

    def recorded(self) -> tuple[Recorded, ...]:
        return tuple(dict.fromkeys(node for node in walk(self.when) if isinstance(node, Recorded)))

    def check_integrity(self) -> None:
        """Asserts that whoever serves it tells all it needs."""
        assert self.served_by, f"{self.name} is served by nobody"
        for family in self.families:
            missing = [name for name in signals_in(self.when) if family not in SIGNALS[name].told]
            assert not missing, f"{self.name}: {family} does not tell {', '.join(missing)}"
        if any(isinstance(node, UpFor | Awake) for node in walk(self.when)):
            assert self.is_of_metrics, f"{self.name} asks for a process that only metrics tell of"


def families_that_tell(when: Condition) -> tuple[Family, ...]:
    """Those that tell every signal in it."""
    needed = signals_in(when)
    return tuple(family for family in FAMILIES if needed and all(family in SIGNALS[name].told for name in needed))
