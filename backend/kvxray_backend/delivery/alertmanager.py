"""Alerts as an Alertmanager takes them (`POST /api/v2/alerts`): labels, annotations, from when until when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.message import Message
from kvxray_backend.delivery.wording import capped

TOLD_AGAIN_S: Final = 60.0
VALID_S: Final = 4 * TOLD_AGAIN_S
"""How long it takes an alert to fire that nobody tells of again: three tellings may be lost."""
GENERATOR: Final = "kvxray"
MAX_LABELS: Final = 30
MAX_VALUE: Final = 200
_NOT_OF_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def alerts_body(messages: Sequence[Message], now_ns: int) -> list[dict[str, Any]]:
    """In order. Of an alert that fired and is over in one go, its end alone is sent, which tells both times."""
    over = {message.alert.id for message in messages if message.kind == "over"}
    sent = (message for message in messages if message.kind == "over" or message.alert.id not in over)
    return [_alert(message, now_ns) for message in sent]


def labels_of(alert: Alert) -> dict[str, str]:
    """They name the alert there. Those of the engine never take the place of ours."""
    ours = {
        "alertname": alert.rule,
        "severity": alert.severity,
        "engine": alert.engine,
        "source": alert.moment.source,
        "generator": GENERATOR,
    }
    labels = {name: _value(value) for name, value in ours.items()}
    for name, value in _named(alert.labels).items():
        if len(labels) < MAX_LABELS:
            labels.setdefault(name, _value(value))
    return {name: value for name, value in labels.items() if value}


def _named(labels: Mapping[str, str]) -> dict[str, str]:
    """By names that a label may have; of two that become alike the first stays."""
    named: dict[str, str] = {}
    for name, value in labels.items():
        plain = _NOT_OF_A_NAME.sub("_", name[:MAX_VALUE])
        # Two underscores in front are what Prometheus keeps to itself.
        plain = re.sub(r"^_+", "_", f"_{plain}" if plain[:1].isdigit() or not plain else plain)
        named.setdefault(plain, value)
    return named


def _value(text: str) -> str:
    return capped(text.replace("\n", " "), MAX_VALUE).strip()


def _alert(message: Message, now_ns: int) -> dict[str, Any]:
    alert = message.alert
    is_over = message.kind == "over" and alert.ended_ns is not None
    ends_ns = max(alert.ended_ns or 0, alert.fired_ns) if is_over else now_ns + int(VALID_S * 1e9)
    return {
        "labels": labels_of(alert),
        "annotations": {
            "summary": message.summary,
            "description": message.description,
            "runbook_url": message.runbook,
            "dashboard_url": message.link,
            "kvxray_alert": alert.id,
        },
        "generatorURL": message.link,
        # Where the clock was set back it began now: what ends before it begins would be refused.
        "startsAt": _time(min(alert.fired_ns, now_ns)),
        # An end that lies ahead would be one that is expected.
        "endsAt": _time(min(ends_ns, now_ns) if is_over else ends_ns),
    }


def _time(ns: int) -> str:
    """To the microsecond, as Go reads it."""
    return datetime.fromtimestamp(ns // 1_000 / 1e6, UTC).isoformat(timespec="microseconds")
