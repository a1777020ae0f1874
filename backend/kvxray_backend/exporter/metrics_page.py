"""docs/exporter.md out of the table of metrics: `python -m kvxray_backend.exporter.metrics_page docs/exporter.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kvxray_backend.exporter.metric import Metric
from kvxray_backend.exporter.metrics import METRICS

_HEAD: Final = """# kvxray in Prometheus and Grafana

Made from the table in `backend/kvxray_backend/exporter`; a test holds this page to it.

`GET /metrics`, below `KVXRAY_BASE_PATH` where that is set, tells everything that kvxray knows of every engine, and
how it is itself: text of Prometheus (0.0.4), or OpenMetrics where that is asked for, compressed where that is taken.
It is made at most once a second, for all who ask. Whoever wants to know only whether it is there may ask with `HEAD`,
as for everything else that is asked for with `GET`.

    scrape_configs:
      - job_name: kvxray
        honor_labels: true
        static_configs:
          - targets: [127.0.0.1:8501]
        # Beyond loopback: the token that KVXRAY_TOKEN has, alone in a file.
        authorization:
          credentials_file: /etc/prometheus/kvxray-token

`honor_labels: true` keeps `namespace` and `pod` those of the engine, and not of kvxray. The name by which Prometheus
reaches kvxray must be one that kvxray answers to (`KVXRAY_ALLOWED_HOSTS`); an address is, where a token is set.

- **Unknown is no sample.** What is not known has none: never 0. A source that is not heard has `kvxray_source_up` 0
  and no figures of its events; an engine whose metrics are not read has none of theirs.
- **Certainty.** Where it is the same for all engines, HELP says it. How sure a figure of an engine is says
  `kvxray_figure_info{engine, metric, certainty}`.
- **Labels.** `engine`, `make`, `role`, and `model`, `cluster`, `namespace`, `pod`, `node` where the engine has them;
  `source` where it is one source (a data-parallel rank) that tells. What metrics of an engine tell is of all its
  ranks together, told once. `part` tells apart what an engine tells by reason, tier or the like: the parts are all
  there is, and add up.
- **Counters** fall only where an engine restarts, or all of its ranks do. A rank that restarts alone, comes late or
  goes takes nothing back and counts nothing twice. What kvxray itself counted begins anew with kvxray.
- **Bounds.** 256 engines, 5,000 samples of each, 64 parts of a signal; what is left out is counted
  (`kvxray_engines_left_out`, `kvxray_exporter_left_out`).

## Grafana

`kvxray dashboard > kvxray.json`, or `GET /api/dashboard`, is a dashboard for Grafana 10 and later, made from the same
table: a row a topic, a panel a metric, limits of the alert rules as lines, alerts as annotations. Each point of a
panel leads to that moment in kvxray: `KVXRAY_PUBLIC_URL` (or `--url`) says where people open it.

Other dashboards and alerts find the page through `GET /api/link`:

    http://kvxray:8501/api/link?go=1&namespace=${__field.labels.namespace}&pod=${__field.labels.pod}&at=${__value.time}

Where kvxray asks for a token, a browser that has opened it once with `/?token=…` shows it on such links too.

Rules for Prometheus itself, over the metrics of engines: `kvxray alerts rules` ([rules](rules/README.md)).

## Metrics
"""


def metrics_page() -> str:
    """The whole page."""
    topics = dict.fromkeys(metric.topic for metric in METRICS.values())
    lines = [line for topic in topics for line in _topic(topic)]
    return "\n".join([_HEAD, *lines])


def _topic(topic: str) -> Iterator[str]:
    yield f"### {topic}\n"
    yield "| metric | type | certainty | means |"
    yield "| --- | --- | --- | --- |"
    yield from (_row(metric) for metric in METRICS.values() if metric.topic == topic)
    yield ""


def _row(metric: Metric) -> str:
    labels = f"<br>by `{'`, `'.join(part.strip() for part in metric.parts.split(','))}`" if metric.parts else ""
    told_by = f" {metric.told_by}." if metric.told_by else ""
    return (
        f"| `{metric.name}`{labels} | {metric.type} | {metric.certainty or 'by engine'} | {metric.meaning}{told_by} |"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(metrics_page(), encoding="utf-8")
