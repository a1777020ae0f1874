"""Answers of `/api/engines/test` as the backend gives them."""

from __future__ import annotations

from typing import Any


def panel(key: str, label: str, certainty: str, why: str) -> dict[str, str]:
    return {"panel": key, "label": label, "certainty": certainty, "why": why}


def found(**changed: Any) -> dict[str, Any]:
    """A vLLM engine that was heard, without metrics."""
    return {
        "reachable": True, "sentence": "3 batches of vLLM's events were heard.",
        "events": {
            "state": "heard", "sentence": "3 batches in 6 seconds.", "batches": 3, "dialect": "vLLM 0.24 and later",
            "ranks": [0], "groups": [{"kind": "full_attention", "window": None}], "media": ["GPU"], "block_size": 16,
            "replay": "answers",
        },
        "metrics": {
            "state": "none", "sentence": "No metrics page was given.", "make": "", "signals": 0,
            "capacity_blocks": None, "block_size": None,
        },
        "coverage": [
            panel("cached", "Cached blocks", "exact", "Counted from its events."),
            panel("chains", "Chains", "exact", "Each block names its parent."),
            panel("age", "Age", "derived", "From when kvxray heard of the block."),
            panel("leaks", "Leaks", "not_observable", "Its events do not tell who holds a block."),
        ],
        "findings": [], **changed,
    }  # fmt: skip
