"""The runbooks of all built-in rules, by the rule's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

RUNBOOKS: Final[Mapping[str, Runbook]] = {}
NONE: Final = Runbook()
"""Of a rule of one's own, whose steps are those that its file says."""


def runbook_of(name: str) -> Runbook:
    return RUNBOOKS.get(name, NONE)
