"""One panel of the dashboard, as Grafana has it: what it asks for, its unit, its limits, the way to the moment here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvxray_backend.exporter.metric import Metric

Json = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN: Final = 'engine=~"$engine",namespace=~"$namespace",pod=~"$pod"'
_UNITS: Final = {"ratio": "percentunit", "seconds": "s", "bytes": "bytes", "per_second": "ops"}
_RATES: Final = {"bytes": "Bps", "requests": "reqps", "seconds": "percentunit"}
_MOMENT: Final = "${kvxray_url}/api/link?go=1&engine=${__field.labels.engine}&at=${__value.time}"


def queries(metric: Metric) -> list[tuple[str, str]]:
    """What is asked for, and what a line is called."""
    by = ", ".join(("engine", "source", *(part.strip() for part in metric.parts.split(",") if part.strip())))
    name = " ".join(f"{{{{{one}}}}}" for one in by.split(", ") if one != "source")
    chosen = f"{metric.name}{{{CHOSEN}}}"
    if metric.type == "counter":
        return [(f"sum by ({by}) (rate({chosen}[$__rate_interval]))", name)]
    if metric.type == "gauge":
        return [(f"sum by ({by}) ({chosen})", name)]
    rate = f"sum by (le, engine) (rate({metric.name}_bucket{{{CHOSEN}}}[$__rate_interval]))"
    return [
        (f"histogram_quantile({q}, {rate})", f"{{{{engine}}}} {label}") for q, label in ((0.5, "p50"), (0.99, "p99"))
    ]


def panel(
    number: int, title: str, metric: Metric, limits: Sequence[tuple[float, str]], place: Mapping[str, int]
) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    steps += [{"color": colour, "value": value} for value, colour in limits]
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": metric.help,
        "datasource": DATASOURCE,
        "gridPos": dict(place),
        "fieldConfig": {
            "defaults": {
                "unit": _unit(metric),
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {"thresholdsStyle": {"mode": "line" if limits else "off"}, "spanNulls": False},
                "links": [{"title": "This moment in kvxray", "url": _MOMENT, "targetBlank": True}],
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": DATASOURCE, "expr": expr, "legendFormat": name, "range": True}
            for at, (expr, name) in enumerate(queries(metric))
        ],
    }


def _unit(metric: Metric) -> str:
    if metric.type == "counter":
        return _RATES.get(metric.unit, "ops")
    return _UNITS.get(metric.unit, "short")
