"""The form that attaches an engine: what it is, where it tells of its cache, and what a test of that found. Drawn by
`attach.js`.
"""

from __future__ import annotations

from typing import Any

from kvxray_app.components.attach_makes import makes
from kvxray_app.components.live_component import Shown, mount_live

ROLES = {
    "both": "Prefill and decode",
    "prefill": "Prefill only",
    "decode": "Decode only: it tells no events",
}
REPEATS = {
    "unknown": "Not known",
    "copies": "One more copy of the block",
    "reuse": "A hit of a block that is there",
}
TESTED = {
    "exact": "Exact",
    "derived": "Derived",
    "not_observable": "Not observable",
}


def attach_screen() -> None:
    """Mount it here."""
    mount_live("attach", Shown(None), key="attach", attach=attach_words())


def attach_words() -> dict[str, Any]:
    """All of its words as the component takes them."""
    return {"makes": makes(), "roles": ROLES, "repeats": REPEATS, "certainties": TESTED}
