"""Answers of `/api/engines` as the backend gives them."""

from __future__ import annotations

from typing import Any

from tests.app.scripted_backend import figure

UNITS = {
    "usage": "ratio",
    "hit_rate": "ratio",
    "evictions_per_s": "per_second",
    "cached_blocks": "blocks",
    "capacity_blocks": "blocks",
    "running": "requests",
    "waiting": "requests",
}


def fleet_engine(name: str, figures: dict[str, float | None] | None = None, **changed: Any) -> dict[str, Any]:
    """An engine that tells of hashes. A figure that is None has no value just now, one that is missing is not told."""
    told = figures or {}
    return {
        "name": name, "make": "vllm", "kind": "hashes", "role": "both", "model": "tiny", "labels": {},
        "sources": [name], "state": "connected", "since": "2026-01-01T00:00:00.000Z", "origin": "page",
        "removable": True, "status": "healthy", "sentence": f"A sentence on {name}.",
        "figures": {
            key: figure(told[key], unit) if key in told else figure(None, unit, "not_observable")
            for key, unit in UNITS.items()
        },
        "coverage": {"exact": 9, "derived": 4, "not_observable": 12}, "num_findings": 0,
        "metrics": {"state": "none", "sentence": "", "last": None}, **changed,
    }  # fmt: skip


def fleet_answer(*engines: dict[str, Any]) -> dict[str, Any]:
    return {"engines": list(engines)}
