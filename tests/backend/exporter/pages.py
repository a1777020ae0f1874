"""The page of metrics as numbers: name -> labels -> value."""

from __future__ import annotations

from kvxray_backend.metrics.exposition import parse_page

Labels = frozenset[tuple[str, str]]


def samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for sample in parse_page(text.encode()).samples:
        found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found
