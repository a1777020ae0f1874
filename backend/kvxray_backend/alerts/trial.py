"""A rule tried on history: the watch's own looks, minute by minute, over what was told then. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvxray_engine.errors import UserError

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_book import AlertBook, Now
from kvxray_backend.alerts.past_engine import PastEngine
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.watched import subjects_of

STEP_NS: Final = 60_000_000_000
MAX_FIRED: Final = 10_000
MAX_LOOKS: Final = 2_000_000
_NS: Final = 1_000_000_000


class TooMuch(UserError):
    """More than may be tried at once."""


@dataclass(slots=True)
class Trial:
    """`fired`: in the order in which they fired, those that would fire on at the end among them; num_looks, num_known:
    by engine or fleet, how often it was looked at, and of those how often it could be told.
    """

    rule: Rule
    from_ns: int
    to_ns: int
    fired: dict[str, Alert] = field(default_factory=dict)
    num_looks: Counter[str] = field(default_factory=Counter)
    num_known: Counter[str] = field(default_factory=Counter)


def tried(
    rule: Rule, engines: Sequence[PastEngine], from_ns: int, to_ns: int, goes_on: Callable[[], bool] = lambda: True
) -> Trial:
    """goes_on: asked now and then, False: it takes too long. Raises `TooMuch`."""
    trial, rules = Trial(rule, from_ns, to_ns), {rule.name: rule}
    steps = [*moments(engines, from_ns, to_ns)]
    if len(steps) * max(1, len(engines)) > MAX_LOOKS:
        raise TooMuch("That is too much at once: try fewer days, or one engine.")
    book = AlertBook(_numbered(), _raised)
    for step, t_ns in enumerate(steps):
        if step % 100 == 0 and not goes_on():
            raise TooMuch("It takes too long: try fewer days, or one engine.")
        _look(trial, book, rules, engines, t_ns)
    return trial


def moments(engines: Sequence[PastEngine], from_ns: int, to_ns: int) -> list[int]:
    """Each minute, and whenever something began or ended."""
    minutes = range(-(-from_ns // STEP_NS) * STEP_NS, to_ns + 1, STEP_NS)
    told = {t_ns for engine in engines for t_ns in engine.moments() if from_ns <= t_ns <= to_ns}
    return sorted({*minutes, *told})


def _look(trial: Trial, book: AlertBook, rules: Mapping[str, Rule], engines: Sequence[PastEngine], t_ns: int) -> None:
    watched = [engine.at(t_ns) for engine in engines]
    for change in book.look(rules, watched, Now(t_ns / _NS, t_ns / _NS, t_ns)):
        if change.alert.id in trial.fired or len(trial.fired) < MAX_FIRED:
            trial.fired[change.alert.id] = change.alert
    for subject in subjects_of(trial.rule, watched):
        state = book.state_of((trial.rule.name, subject.name))
        trial.num_looks[subject.name] += 1
        trial.num_known[subject.name] += state is not None and state.unknown_since_s is None


def _numbered() -> Callable[[], str]:
    numbers: Iterator[int] = iter(range(1, 1 << 62))
    return lambda: str(next(numbers))


def _raised(rule: str, engine: str, error: Exception) -> None:
    raise error
