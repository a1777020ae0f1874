"""The alerts that fire now, as the overview lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.links import alert_link
from kvxray_backend.overview_types import ActiveAlertView

MAX_LISTED: Final = 10


def listed(active: Sequence[Alert]) -> list[ActiveAlertView]:
    """active: the gravest first. The first few; the page of alerts has all."""
    return [
        ActiveAlertView(
            id=alert.id,
            rule=alert.rule,
            severity=alert.severity,
            engine=alert.engine,
            since=alert.began,
            sentence=alert.culprit or alert.sentence,
            link=alert_link(alert.id),
        )
        for alert in active[:MAX_LISTED]
    ]
