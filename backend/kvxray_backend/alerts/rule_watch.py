"""One rule over one engine, or one fleet, as time goes on: looks at what is known, and keeps the alert's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvxray_backend.alerts.alert_state import AlertState, advance
from kvxray_backend.alerts.evaluation import Look
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.rule import Rule


@dataclass(slots=True)
class RuleWatch:
    """For one thread."""

    rule: Rule
    alert: AlertState = field(default_factory=AlertState)

    def look(self, engines: Sequence[Evidence], at_s: float, steady_s: float | None = None) -> AlertState:
        """engines: one; for a rule of a fleet all of one model and role. at_s: Unix seconds. steady_s: the same by a
        clock that nobody sets, by which it is counted how long something holds; None: `at_s` is one.
        """
        holds = Look(engines, at_s, self.alert.is_firing).holds(self.rule.when)
        self.alert = advance(self.rule, self.alert, holds, at_s if steady_s is None else steady_s)
        return self.alert
