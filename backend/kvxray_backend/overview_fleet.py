"""All engines together: usage between them, and what is wrong with how work is spread. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvxray_backend.analysis.verdict_signs import percent
from kvxray_backend.figure import Figure
from kvxray_backend.overview_types import EngineView, FleetView

SKEWED: Final = 0.5


def fleet_view(followed: Iterable[EngineView]) -> FleetView:
    """Usage between engines; the mean is of engines, not of blocks, as a router sees them."""
    engines = list(followed)
    used = {engine.source: value for engine in engines if (value := _value(engine, "used")) is not None}
    spread, sentence = _skew(engines)
    values: dict[str, tuple[float | None, str]] = {
        "used_mean": (sum(used.values()) / len(used) if used else None, "ratio"),
        "used_max": (max(used.values(), default=None), "ratio"),
        "used_spread": (spread, "ratio"),
        "running": (_sum(engines, "running"), "requests"),
        "waiting": (_sum(engines, "waiting"), "requests"),
    }
    return FleetView(
        figures={name: Figure.model_validate(_derived(*told)) for name, told in values.items()},
        worst=engines[0].source if engines else None,
        fullest=max(used, key=lambda name: used[name], default=None),
        sentence=sentence,
    )


def _derived(value: float | None, unit: str) -> dict[str, object]:
    return {"value": value, "unit": unit, "certainty": "derived"}


def _skew(engines: list[EngineView]) -> tuple[float | None, str]:
    """The widest spread of usage among engines of one model and role; wrong only where somebody waits meanwhile.
    Prefill and decode pools differ by nature, and so do models.
    """
    groups: dict[tuple[str, str], list[EngineView]] = {}
    for engine in engines:
        if _value(engine, "used") is not None:
            groups.setdefault((engine.model, engine.labels.get("role", "both")), []).append(engine)
    worst: tuple[float | None, str] = (None, "")
    for group in (group for group in groups.values() if len(group) > 1):
        least, most = (pick(group, key=lambda one: _value(one, "used") or 0.0) for pick in (min, max))
        low, high = _value(least, "used") or 0.0, _value(most, "used") or 0.0
        if worst[0] is None or high - low > worst[0]:
            waits = any(_value(engine, "waiting") for engine in group)
            worst = high - low, _skew_sentence(least, low, most, high) if high - low > SKEWED and waits else ""
    return worst


def _skew_sentence(least: EngineView, low: float, most: EngineView, high: float) -> str:
    return (
        f"Requests wait though the load is uneven: {most.source} has {percent(high)} of its cache in use, "
        f"{least.source} {percent(low)}."
    )


def _value(engine: EngineView, name: str) -> float | None:
    figure = engine.figures.get(name)
    return figure.value if figure is not None else None


def _sum(engines: list[EngineView], name: str) -> float | None:
    """None while it is not known of one of them: a part is not the whole."""
    told = [value for engine in engines if (value := _value(engine, name)) is not None]
    return sum(told) if told and len(told) == len(engines) else None
