"""What people are told of an alert, in plain text: a line, and a paragraph with the culprit and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvxray_backend.alerts.alert import Alert, AlertNumber

MAX_LINE: Final = 300
MAX_PARAGRAPH: Final = 3_000
_NUM_FINDINGS: Final = 3


def summary(alert: Alert) -> str:
    """One line: what is wrong, and where."""
    return capped(f"{alert.engine}: {alert.sentence}" if alert.engine else alert.sentence, MAX_LINE)


def description(alert: Alert, steps: Sequence[str]) -> str:
    """Lines: who is to blame, what was found, what was compared, what to do."""
    lines = [alert.culprit, *_findings(alert), *map(_number, alert.numbers), alert.over_because]
    lines += [f"{place}. {step}" for place, step in enumerate(steps, 1)]
    return capped("\n".join(line for line in lines if line), MAX_PARAGRAPH)


def capped(text: str, most: int) -> str:
    """One dot stands for what is left out, and nothing that only a terminal understands gets through."""
    plain = "".join(char if char == "\n" or char.isprintable() else " " for char in text)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def _findings(alert: Alert) -> list[str]:
    told = list(dict.fromkeys(finding.sentence for finding in alert.findings))[:_NUM_FINDINGS]
    left = alert.num_findings - len(told)
    return [*(one for one in told if one != alert.culprit), f"{left} more findings." if told and left > 0 else ""]


def _number(number: AlertNumber) -> str:
    if number.value is None:
        return ""
    limit = f" (limit {number.limit:g})" if number.limit is not None else ""
    return f"{number.words.replace('`', '')}: {number.value:g}{limit}"
