"""The labels that samples of an engine carry, and of one of its sources."""

from __future__ import annotations

from typing import Final

from kvxray_engine.server.prometheus_text import LabelText

from kvxray_backend.exporter.samples import label
from kvxray_backend.overview_types import EngineView

GIVEN: Final = ("cluster", "namespace", "pod", "node")
"""Those of an engine's own labels that are told, where it has them; others could be any number."""


def engine_labels(view: EngineView) -> LabelText:
    """Of what is told of all its ranks together."""
    told = {
        "engine": view.engine,
        "make": view.make,
        "model": view.model,
        "role": view.labels.get("role", "both"),
        **{name: view.labels.get(name, "") for name in GIVEN},
    }
    return LabelText().plus(**{name: label(text) for name, text in told.items() if text})


def source_labels(view: EngineView) -> LabelText:
    """Of what one source tells."""
    return engine_labels(view).plus(source=label(view.source))
