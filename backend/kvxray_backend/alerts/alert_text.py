"""An alert as plain text, to paste where there is no page."""

from __future__ import annotations

from kvxray_backend.alerts.alert import Alert, AlertNumber
from kvxray_backend.alerts.rule import Rule


def alert_text(alert: Alert, rule: Rule | None, link: str) -> str:
    """rule: None where there is none of that name any more. link: whole."""
    lines = [f"{alert.rule} ({alert.severity}) {_how_it_is(alert)}: {alert.engine}", alert.sentence]
    lines += [alert.culprit] if alert.culprit else []
    lines += [_number(one) for one in alert.numbers]
    lines.append(f"Since {alert.began}, fired {alert.fired}" + (f", over {alert.ended}" if alert.ended else ""))
    lines += [alert.over_because] if alert.over_because else []
    lines += [f"{name}: {value}" for name, value in sorted(alert.labels.items())]
    if rule is not None and rule.do:
        lines += ["What to do:", *(f"{at}. {step}" for at, step in enumerate(rule.do, 1))]
    return "\n".join([*lines, link])


def _how_it_is(alert: Alert) -> str:
    if alert.ended_ns is None:
        return "fires"
    seconds = (alert.ended_ns - alert.fired_ns) / 1e9
    return f"is over after {seconds:.0f} s" if seconds < 120 else f"is over after {seconds / 60:.0f} minutes"


def _number(one: AlertNumber) -> str:
    value = "not known" if one.value is None else f"{one.value:,.6g}"
    limit = "" if one.limit is None else f" (limit {one.limit:,.6g})"
    return f"{one.words.replace('`', '')}: {value}{limit}"
