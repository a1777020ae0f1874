"""What came out of a trial, as the API and the command tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvxray_backend.alert_types import TrialView, TriedEngineView, WouldView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.expression import FigureNow, signals_in, walk
from kvxray_backend.alerts.links import source_link
from kvxray_backend.alerts.past_engine import PastEngine
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_needs import needs_of
from kvxray_backend.alerts.trial import Trial
from kvxray_backend.moments import iso_time, iso_time_or_none
from kvxray_backend.quantities import counted

MAX_LISTED: Final = 200
WHOLE: Final = 0.995
MINUTE_S: Final = 60.0
BY_MINUTE: Final = "What metrics told is stored by the minute, so that is derived: what lasted less may be missed."
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def trial_view(trial: Trial, engines: Sequence[PastEngine]) -> TrialView:
    newest_first = sorted(trial.fired.values(), key=lambda one: (one.fired_ns, one.id), reverse=True)
    told = [_told(trial, name, engines) for name in trial.num_looks]
    told += [_not_told(trial.rule, one) for one in engines if one.serves.isdisjoint(trial.rule.served_by)]
    return TrialView(
        rule=trial.rule.name,
        sentence=sentence_of(trial, [one for one in told if one.known_share > 0], by_minute=_by_minute(trial, engines)),
        **{"from": iso_time(trial.from_ns)},
        to=iso_time(trial.to_ns),
        fired=[_would(one) for one in newest_first[:MAX_LISTED]],
        num_fired=len(newest_first),
        engines=told,
    )


def sentence_of(trial: Trial, known: Sequence[TriedEngineView], *, by_minute: bool = False) -> str:
    """by_minute: what metrics told is known so, which is not quite what the watch would have seen."""
    lasted = span_text(trial.to_ns - trial.from_ns)
    if not known:
        return f"Nothing that is stored of {lasted} can tell it."
    num = len(trial.fired)
    often = "not once" if num == 0 else "once" if num == 1 else f"{num:,} times"
    goes_on = sum(one.state == "firing" for one in trial.fired.values())
    still = f", and {goes_on:,} of them would fire in the end" if goes_on and num > 1 else ""
    still = ", and would fire in the end" if goes_on and num == 1 else still
    derived = f" {BY_MINUTE}" if by_minute else ""
    return f"It would have fired {often} in {lasted}, over {counted(len(known), 'engine')}{still}.{derived}"


def _by_minute(trial: Trial, engines: Sequence[PastEngine]) -> bool:
    is_coarse = any(timed.seconds >= MINUTE_S for engine in engines for timed in engine.told)
    return is_coarse and bool(signals_in(trial.rule.when))


def span_text(span_ns: int) -> str:
    seconds = round(span_ns / 1e9)
    for size, name in _UNITS:
        if seconds >= size and seconds % size < size / 100:
            return counted(seconds // size, name)
    return counted(max(1, round(seconds / 60)), "minute")


def _would(alert: Alert) -> WouldView:
    moment = alert.moment
    return WouldView(
        engine=alert.engine,
        began=iso_time(alert.began_ns),
        fired=iso_time(alert.fired_ns),
        ended=iso_time_or_none(alert.ended_ns),
        at=iso_time(alert.fired_ns),
        link=source_link(moment.source, moment.at) if moment.source else "",
        culprit=alert.culprit,
    )


def _told(trial: Trial, name: str, engines: Sequence[PastEngine]) -> TriedEngineView:
    share = trial.num_known[name] / trial.num_looks[name]
    why = "" if share >= WHOLE else _why(trial.rule, next((one for one in engines if one.name == name), None))
    return TriedEngineView(engine=name, known_share=round(share, 4), why=why)


def _why(rule: Rule, engine: PastEngine | None) -> str:
    if any(isinstance(node, FigureNow) for node in walk(rule.when)):
        return "It asks for figures, of which only the present is known; signals and findings can be tried."
    needed = signals_in(rule.when)
    if engine is not None and needed:
        told = {name for one in engine.told for name, _ in one.stretch.told}
        missing = [name for name in needed if name not in told]
        if missing:
            return f"What is stored of its metrics does not tell {', '.join(missing)}."
    return "It was not watched, or told too little, part of that time."


def _not_told(rule: Rule, engine: PastEngine) -> TriedEngineView:
    return TriedEngineView(engine=engine.name, known_share=0.0, why=f"It needs {needs_of(rule)}.")
