"""Who can tell what a rule needs, in words."""

from __future__ import annotations

from typing import Final

from kvxray_backend.alerts.rule import Rule, Server
from kvxray_backend.metrics.signals_page import FAMILY_WORDS

_OF_EVENTS: Final[dict[Server, str]] = {"events": "events of hashes", "blocks": "kvxray's own engine"}


def needs_of(rule: Rule) -> str:
    makes = [FAMILY_WORDS[one] for one in FAMILY_WORDS if one in rule.served_by]
    metrics = [f"metrics of {', '.join(makes)}"] if makes else []
    return "; or ".join([*metrics, *(text for one, text in _OF_EVENTS.items() if one in rule.served_by)])
