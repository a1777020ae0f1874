"""Samples of what the overview tells of every engine: how it is heard, the verdict, its figures, blocks by state.

What metrics tell is of an engine and the same on the line of each of its ranks, so it is told once; what events tell is
of a source, and of none that is not heard: it would be as it was then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvxray_engine.server.prometheus_text import LabelText

from kvxray_backend import overview_signals
from kvxray_backend.exporter.engine_labels import engine_labels, source_labels
from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS
from kvxray_backend.exporter.samples import Samples
from kvxray_backend.figure import Figure
from kvxray_backend.overview_types import EngineView

_IS_HEARD: Final = "connected"


def add_engine(samples: Samples, views: Sequence[EngineView]) -> None:
    """views: all sources of one engine."""
    first = views[0]
    if first.kind != "blocks":
        told = {name: figure for name, figure in first.figures.items() if name in overview_signals.FIGURES}
        _add_figures(samples, told, engine_labels(first))
    for view in views:
        _add_source(samples, view)


def _add_source(samples: Samples, view: EngineView) -> None:
    labels = source_labels(view)
    if view.kind != "metrics":
        samples.add("kvxray_source_up", float(view.state == _IS_HEARD), labels)
        samples.add("kvxray_source_state", 1, labels.plus(state=view.state))
    cause = {"cause": view.verdict.cause} if view.verdict.cause else {}
    samples.add("kvxray_verdict", 1, labels.plus(status=view.verdict.status, **cause))
    samples.add("kvxray_usable_blocks", view.usable_blocks, labels)
    samples.add("kvxray_block_size_tokens", view.block_size, labels)
    samples.add("kvxray_block_size_bytes", view.bytes_per_block or None, labels)
    if view.state == _IS_HEARD:
        _add_figures(
            samples, {name: figure for name, figure in view.figures.items() if _is_of_source(view, name)}, labels
        )
        for state, figure in view.counts.items():
            samples.add("kvxray_blocks", figure.value, labels.plus(state=state))


def _is_of_source(view: EngineView, figure: str) -> bool:
    return view.kind == "blocks" or figure not in overview_signals.FIGURES


def _add_figures(samples: Samples, figures: Mapping[str, Figure], labels: LabelText) -> None:
    for name, figure in figures.items():
        metric = FIGURE_METRICS.get(name)
        if metric is not None and figure.value is not None:
            samples.add(metric.name, figure.value, labels)
            samples.add("kvxray_figure_info", 1, labels.plus(metric=metric.name, certainty=figure.certainty))
