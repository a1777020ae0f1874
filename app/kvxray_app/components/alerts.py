"""The alerts: what fires and who was told, what is over, and the rules: how they stand, their runbooks, a trial on
history. Drawn by `alerts.js`.
"""

from __future__ import annotations

from typing import Any

from kvxray_app.components.live_component import Shown, mount_live

TABS = {"active": "Active", "history": "History", "rules": "Rules"}
SEVERITIES = {"critical": "Critical", "warning": "Warning", "info": "Info"}
STANDS = {
    "firing": "fires",
    "pending": "about to fire",
    "unknown": "unknown",
    "inactive": "inactive",
    "not_observable": "not observable",
}
"""How a rule stands for an engine, the gravest first."""
STAND_MEANINGS = {
    "firing": "Its conditions hold for long enough: the alert is among those that fire.",
    "pending": "Its conditions hold, and not for long enough yet.",
    "unknown": "What it needs is not told just now.",
    "inactive": "Its conditions do not hold.",
    "not_observable": "Nothing that is watched of this engine can tell it.",
}
TARGET_STATES = {"ok": "takes them", "failing": "fails", "unused": "nothing sent yet"}
MUTES = {"30m": "30 minutes", "2h": "2 hours", "8h": "8 hours", "24h": "1 day", "72h": "3 days"}
STRETCHES = {"1": "1 day", "7": "7 days", "15": "15 days"}
"""How much history a rule is tried on, in days."""
ORIGINS = {"built-in": "built in", "file": "from a file", "page": "written here"}
COLUMNS = {
    "history": ("Severity", "Rule", "Engine", "What was wrong", "Fired", "Lasted", "Links"),
    "rules": ("Rule", "Severity", "For", "Stands", "On"),
}
EXAMPLE = """\
rules:
- name: CacheNearlyFull
  severity: warning
  for: 5m
  sentence: "For five minutes the cache was nearly full."
  do:
  - "See which requests hold the most blocks."
  when:
  - figure: usage
    above: 0.95
"""
"""What the box for a rule of one's own begins with; docs/rules says all that may stand there."""


def alerts_screen() -> None:
    """Mount it here."""
    mount_live("alerts", Shown(None), key="alerts", alerts=alerts_words())


def alerts_words() -> dict[str, Any]:
    """All of its words as the component takes them."""
    return {
        "tabs": TABS,
        "severities": SEVERITIES,
        "stands": STANDS,
        "stand_meanings": STAND_MEANINGS,
        "target_states": TARGET_STATES,
        "mutes": MUTES,
        "stretches": STRETCHES,
        "origins": ORIGINS,
        "columns": COLUMNS,
        "example": EXAMPLE,
    }
