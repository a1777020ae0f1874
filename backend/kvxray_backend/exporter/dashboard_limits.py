"""Limits that alert rules compare with, as lines of the panels that show what they compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kvxray_backend.alerts.expression import (
    Compare,
    Constant,
    FigureNow,
    Grown,
    Highest,
    Lowest,
    Now,
    Number,
    Recorded,
    walk,
)
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS
from kvxray_backend.exporter.signal_metrics import SIGNAL_METRICS

# Figures that show what rules compare, beside the signal itself.
_FIGURE_OF_SIGNAL: Final = {"kv_usage": ("used", "used_max_5m"), "kv_usage_host": ("used_host",)}
_FIGURE_OF_GROWTH: Final = {("preemptions", 600): "preemptions_10m"}
_FIGURE_OF_RECORDED: Final = {"preempt:per_finished10m": "preemptions_per_finished"}
# Their limits say nothing where not all of their conditions hold.
_ONLY_WITH_MORE: Final = frozenset({"KVHeldWhileIdle"})
COLOURS: Final = {"info": "blue", "warning": "orange", "critical": "red"}


def limits() -> Mapping[str, list[tuple[float, str]]]:
    """By name of the metric: limits from below, each with the colour of its severity."""
    found: dict[str, dict[float, str]] = {}
    for rule in (rule for rule in RULES.values() if rule.name not in _ONLY_WITH_MORE):
        for node in walk(rule.when):
            if (
                isinstance(node, Compare)
                and node.than == ">"
                and isinstance(node.right, Constant)
                and node.right.value > 0
            ):
                for metric in _shown_by(node.left):
                    found.setdefault(metric, {}).setdefault(node.right.value, COLOURS[rule.severity])
    return {metric: sorted(lines.items()) for metric, lines in found.items()}


def _shown_by(number: Number) -> Iterator[str]:
    """Metrics of which a panel shows that number as it is."""
    figures: tuple[str, ...] = ()
    if isinstance(number, Now | Lowest | Highest) and not number.part:
        yield SIGNAL_METRICS[number.signal].name
        figures = _FIGURE_OF_SIGNAL.get(number.signal, ())
    elif isinstance(number, FigureNow):
        figures = (number.name,)
    elif isinstance(number, Grown) and (number.signal, number.window_s) in _FIGURE_OF_GROWTH:
        figures = (_FIGURE_OF_GROWTH[number.signal, number.window_s],)
    elif isinstance(number, Recorded) and number.name in _FIGURE_OF_RECORDED:
        figures = (_FIGURE_OF_RECORDED[number.name],)
    yield from (FIGURE_METRICS[figure].name for figure in figures if figure in FIGURE_METRICS)
