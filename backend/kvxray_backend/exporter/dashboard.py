"""A dashboard of Grafana out of the table of metrics: a row a topic, a panel a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kvxray_backend.exporter.dashboard_limits import limits
from kvxray_backend.exporter.dashboard_panels import DATASOURCE, Json, panel
from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS
from kvxray_backend.exporter.figure_words import FIGURE_WORDS, OTHER
from kvxray_backend.exporter.fixed_metrics import ALERTS, EVENTS, FIXED, HEALTH, OWN
from kvxray_backend.exporter.metric import Metric
from kvxray_backend.exporter.signal_metrics import SIGNAL_METRICS
from kvxray_backend.metrics.labels import label_of
from kvxray_backend.metrics.signals import TOPICS

UID: Final = "kvxray"
SCHEMA_VERSION: Final = 39
"""Of Grafana 10.4 and 11; newer ones bring it up to date."""
NO_URL: Final = "http://127.0.0.1:8501"
_OPEN: Final = (HEALTH, "Cache in use", ALERTS)
"""Rows that are open at first."""
_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3
# What is 1 for each of many labels is no line to look at.
_NO_PANELS: Final = frozenset({"kvxray_figure_info", "kvxray_build_info", "kvxray_source_state"})


def dashboard(public_url: str = "") -> Json:
    """As Grafana's import takes it. public_url: where people open kvxray."""
    return {
        "uid": UID,
        "title": "kvxray",
        "description": "What kvxray knows of every KV cache. Made from its table of metrics: do not edit it by hand.",
        "tags": ["kvxray", "kv-cache"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": [*_variables(public_url or NO_URL)]},
        "annotations": {"list": [_alerts()]},
        "links": [
            {"title": "kvxray", "type": "link", "url": "${kvxray_url}", "targetBlank": True, "icon": "external link"}
        ],
        "panels": [*_panels()],
    }


def rows() -> Iterator[tuple[str, list[tuple[str, Metric]]]]:
    """Topics, each with the titles and metrics of its panels."""
    yield HEALTH, [*_of_fixed(HEALTH)]
    for topic in (*FIGURE_WORDS, OTHER):
        figures = [(label_of(name), one) for name, one in FIGURE_METRICS.items() if one.topic == topic]
        if figures:
            yield topic, figures
        if topic == "Cache in use":
            yield ALERTS, [*_of_fixed(ALERTS)]
    yield EVENTS, [*_of_fixed(EVENTS)]
    for topic, signals in TOPICS.items():
        yield f"Engine metrics: {topic}", [(label_of(one.name), SIGNAL_METRICS[one.name]) for one in signals]
    yield OWN, [*_of_fixed(OWN)]


def _of_fixed(topic: str) -> Iterator[tuple[str, Metric]]:
    for one in FIXED:
        if one.topic == topic and one.name not in _NO_PANELS:
            yield label_of(one.name.removeprefix("kvxray_").removesuffix("_total")), one


def _panels() -> Iterator[Json]:
    lines = limits()
    number, y = 0, 0
    for topic, told in rows():
        number, is_open = number + 1, topic in _OPEN
        row: Json = {"id": number, "type": "row", "title": topic, "collapsed": not is_open, "panels": []}
        row["gridPos"] = {"x": 0, "y": y, "w": 24, "h": 1}
        inner: list[Json] = []
        for at, (title, metric) in enumerate(told):
            number += 1
            place = {"x": at % _ACROSS * _WIDTH, "y": y + 1 + at // _ACROSS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            inner.append(panel(number, title, metric, lines.get(metric.name, ()), place))
        if is_open:
            y += 1 + -(-len(told) // _ACROSS) * _HEIGHT
            yield from (row, *inner)
        else:
            y += 1
            yield {**row, "panels": inner}


def _variables(kvxray_url: str) -> Iterator[Json]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}
    yield from (_label_variable(name) for name in ("namespace", "pod", "engine"))
    yield {
        "name": "kvxray_url", "label": "kvxray", "type": "constant", "query": kvxray_url, "hide": 2,
        "current": {"text": kvxray_url, "value": kvxray_url, "selected": False},
    }  # fmt: skip


def _label_variable(name: str) -> Json:
    # Engines without the label are shown where all are.
    query = f"label_values(kvxray_verdict, {name})"
    everything = {"text": ["All"], "value": ["$__all"], "selected": True}
    return {
        "name": name, "label": name.capitalize(), "type": "query", "datasource": DATASOURCE, "hide": 0, "sort": 1,
        "query": {"query": query, "refId": name}, "definition": query, "refresh": 2,
        "multi": True, "includeAll": True, "allValue": ".*", "current": everything,
    }  # fmt: skip


def _alerts() -> Json:
    return {
        "name": "Alerts", "enable": True, "hide": False, "iconColor": "red", "datasource": DATASOURCE,
        "expr": 'kvxray_alerts{state="firing",engine=~"$engine"}', "step": "30s",
        "titleFormat": "{{rule}}", "textFormat": "{{engine}}", "tagKeys": "severity,engine",
    }  # fmt: skip


def expressions(board: Json) -> Iterator[str]:
    """All that its panels and annotations ask a Prometheus for."""
    yield from (str(one["expr"]) for one in board["annotations"]["list"])
    yield from (str(target["expr"]) for one in all_panels(board["panels"]) for target in one.get("targets", ()))


def all_panels(panels: Iterable[Json]) -> Iterator[Json]:
    for one in panels:
        yield one
        yield from all_panels(one.get("panels", ()))
