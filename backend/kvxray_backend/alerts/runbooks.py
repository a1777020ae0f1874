"""The runbooks of all built-in rules, by the rule's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook
from kvxray_backend.alerts.runbooks_blocks import BLOCK_RUNBOOKS
from kvxray_backend.alerts.runbooks_hashes import HASH_RUNBOOKS
from kvxray_backend.alerts.runbooks_reuse import REUSE_RUNBOOKS
from kvxray_backend.alerts.runbooks_room import ROOM_RUNBOOKS
from kvxray_backend.alerts.runbooks_sglang import SGLANG_RUNBOOKS
from kvxray_backend.alerts.runbooks_stream import STREAM_RUNBOOKS

RUNBOOKS: Final[Mapping[str, Runbook]] = {
    **ROOM_RUNBOOKS,
    **REUSE_RUNBOOKS,
    **SGLANG_RUNBOOKS,
    **BLOCK_RUNBOOKS,
    **HASH_RUNBOOKS,
    **STREAM_RUNBOOKS,
}
NONE: Final = Runbook()
"""Of a rule of one's own, whose steps are those that its file says."""


def runbook_of(name: str) -> Runbook:
    return RUNBOOKS.get(name, NONE)
