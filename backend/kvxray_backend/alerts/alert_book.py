"""Which alerts fire: every rule that is on over every engine, look by look. Knows neither threads nor the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_making import gone_on, grounds, made, over
from kvxray_backend.alerts.alert_state import AlertState
from kvxray_backend.alerts.evaluation import Look
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_watch import RuleWatch
from kvxray_backend.alerts.watched import Subject, Watched, subjects_of
from kvxray_backend.analysis.finding import Severity

GONE_AFTER_S: Final = 30.0
"""An engine that is not watched for that long is gone: one whose description changed is attached anew at once."""
EXPECTED_S: Final = 300.0
"""After a start an engine of an alert may take that long to be watched again."""
RULE_OFF: Final = "The rule was switched off."
NOT_WATCHED: Final = "The engine is not watched any more."

Key = tuple[str, str]
"""A rule and an engine, or fleet."""
Kind = Literal["fired", "over", "changed"]


@dataclass(frozen=True, slots=True)
class Now:
    """at_s: up to when evidence counts, Unix seconds. steady_s: by a clock that nobody sets. wall_ns: what to write."""

    at_s: float
    steady_s: float
    wall_ns: int


@dataclass(frozen=True, slots=True)
class Change:
    """What became of an alert: it fired, is over, or rests on more than it did."""

    alert: Alert
    kind: Kind


@dataclass(frozen=True, slots=True)
class Pending:
    """A rule whose condition holds, and not long enough yet."""

    rule: str
    severity: Severity
    engine: str
    since_ns: int
    fires_in_s: float


class AlertBook:
    """For one thread. Invariant: of one rule and engine at most one alert fires at a time, and it ends once."""

    def __init__(self, new_id: Callable[[], str], stumbled: Callable[[str, str, Exception], object]) -> None:
        """stumbled: told of a rule and engine that could not be looked at, and why."""
        self._new_id = new_id
        self._stumbled = stumbled
        self._watches: dict[Key, RuleWatch] = {}
        self._began_ns: dict[Key, int] = {}
        self._firing: dict[Key, Alert] = {}
        self._gone_since_s: dict[Key, float] = {}

    @property
    def firing(self) -> dict[Key, Alert]:
        return self._firing

    def take_over(self, alerts: Iterable[Alert], rules: Mapping[str, Rule], now: Now) -> list[Change]:
        """Those that an earlier process left firing: they go on, and nobody is told again."""
        changes, steady_s = list[Change](), now.steady_s
        for alert in sorted(alerts, key=lambda one: one.fired_ns):
            key = alert.rule, alert.engine
            if key in self._firing:
                changes.append(self._over(key, now))
            self._firing[key] = alert
            self._gone_since_s[key] = steady_s + EXPECTED_S - GONE_AFTER_S
            if alert.rule in rules:
                state = AlertState("firing", steady_s, steady_s, held_at_s=steady_s, unknown_since_s=steady_s)
                self._watches[key] = RuleWatch(rules[alert.rule], state)
        return changes

    def look(self, rules: Mapping[str, Rule], engines: Sequence[Watched], now: Now) -> list[Change]:
        """rules: those that are on."""
        changes, seen = list[Change](), set[Key]()
        for rule in rules.values():
            for subject in subjects_of(rule, engines):
                key = rule.name, subject.name
                seen.add(key)
                self._gone_since_s.pop(key, None)
                try:
                    changes += self._look(key, rule, subject, now)
                except Exception as error:
                    self._stumbled(rule.name, subject.name, error)
        return [*changes, *self._let_go(seen, rules, now)]

    def state_of(self, key: Key) -> AlertState | None:
        """None: that rule is not looked at for that engine."""
        watch = self._watches.get(key)
        return watch.alert if watch is not None else None

    def states(self) -> dict[Key, AlertState]:
        return {key: watch.alert for key, watch in self._watches.items()}

    def pending(self) -> list[Pending]:
        return [
            Pending(
                rule=key[0],
                severity=watch.rule.severity,
                engine=key[1],
                since_ns=self._began_ns.get(key, 0),
                fires_in_s=max(watch.rule.for_s - watch.alert.held_s, 0.0),
            )
            for key, watch in self._watches.items()
            if watch.alert.state == "pending"
        ]

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        for key, alert in self._firing.items():
            assert (alert.rule, alert.engine) == key, "an alert under another's name"
            assert alert.state == "firing", "what is over is in here no more"
            assert alert.began_ns <= alert.fired_ns, "it fired before it began"
        firing = {key for key, watch in self._watches.items() if watch.alert.is_firing}
        assert firing <= set(self._firing), "a rule fires without an alert"

    def _look(self, key: Key, rule: Rule, subject: Subject, now: Now) -> Iterator[Change]:
        watch = self._watches.get(key)
        if watch is None or (watch.rule is not rule and watch.rule != rule):
            watch = self._watches[key] = RuleWatch(rule, watch.alert if watch is not None else AlertState())
        was = watch.alert
        state = watch.look(subject.evidence, now.at_s, now.steady_s)
        if state.state == "inactive":
            self._began_ns.pop(key, None)
        else:
            self._began_ns.setdefault(key, now.wall_ns)
        alert = self._firing.get(key)
        if state.is_firing and alert is None:
            yield self._fired(key, rule, subject, now)
        elif alert is not None and not state.is_firing:
            yield self._over(key, now)
        elif alert is not None and state.state == "firing" and state.unknown_since_s is None:
            on = grounds(rule, Look(subject.evidence, now.at_s, was.is_firing))
            changed = gone_on(alert, on)
            if changed is not alert:
                self._firing[key] = changed
                yield Change(changed, "changed")

    def _fired(self, key: Key, rule: Rule, subject: Subject, now: Now) -> Change:
        on = grounds(rule, Look(subject.evidence, now.at_s))
        alert = made(self._new_id(), rule, subject, on, self._began_ns[key], now.wall_ns)
        self._firing[key] = alert
        return Change(alert, "fired")

    def _over(self, key: Key, now: Now, because: str = "") -> Change:
        self._began_ns.pop(key, None)
        return Change(over(self._firing.pop(key), now.wall_ns, because), "over")

    def _let_go(self, seen: set[Key], rules: Mapping[str, Rule], now: Now) -> Iterator[Change]:
        """What was not looked at: the rule is off, or the engine is not watched, or does not tell it any more."""
        for key in [key for key in {**self._watches, **self._firing} if key not in seen]:
            is_off = key[0] not in rules
            since_s = self._gone_since_s.setdefault(key, now.steady_s)
            if not is_off and now.steady_s - since_s < GONE_AFTER_S:
                continue
            self._gone_since_s.pop(key, None)
            self._watches.pop(key, None)
            self._began_ns.pop(key, None)
            if key in self._firing:
                yield self._over(key, now, RULE_OFF if is_off else NOT_WATCHED)
