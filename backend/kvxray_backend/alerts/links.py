"""Addresses of alerts: the page at the moment one fired, its runbook, and how others reach them from outside."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.settings import Settings


def page_link(alert: Alert) -> str:
    """Relative to the page's root: the engine at the moment it fired, with what is to blame marked; where it is about
    no one source, the alert itself.
    """
    moment = alert.moment
    if not moment.source:
        return alert_link(alert.id)
    return source_link(moment.source, moment.at, alert.id)


def source_link(source: str, at: str, mark: str = "") -> str:
    """Relative to the page's root: a source at a moment. mark: an alert whose culprits are marked there."""
    asked = {"source": source, "at": at, **({"mark": mark} if mark else {})}
    return f"./?{urlencode(asked, quote_via=quote)}"


def alert_link(alert_id: str) -> str:
    return f"alerts?{urlencode({'id': alert_id}, quote_via=quote)}"


def rule_link(rule: str) -> str:
    """Its runbook."""
    return f"alerts?{urlencode({'rule': rule}, quote_via=quote)}"


def whole_link(settings: Settings, path: str) -> str:
    """As somebody elsewhere opens it. path: relative to the page's root."""
    return f"{(settings.public_url or settings.url).rstrip('/')}/{path.removeprefix('./')}"
