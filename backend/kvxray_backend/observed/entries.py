"""One entry of what is to be watched: an engine, or a list of targets with what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvxray_backend.observed.spec import BadSpec, ObserveSpec, read_model, read_spec
from kvxray_backend.observed.target_list import TargetList

Entry = ObserveSpec | TargetList


def read_entry(raw: Any) -> Entry:
    """Out of plain data. Raises `BadSpec`, one sentence."""
    if isinstance(raw, ObserveSpec | TargetList):
        return raw
    if isinstance(raw, Mapping) and "file_sd" in raw:
        return read_model(TargetList, raw)
    return read_spec(raw)


def check_names(entries: list[ObserveSpec]) -> None:
    """Raises `BadSpec` where two have one name."""
    seen: set[str] = set()
    for spec in entries:
        if spec.name in seen:
            raise BadSpec(f"Two engines are called {spec.name!r}; give each a name of its own.", "name")
        seen.add(spec.name)
