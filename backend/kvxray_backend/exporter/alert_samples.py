"""Samples of findings that are open, of alerts, and of how those who are told of alerts take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvxray_engine.server.prometheus_text import LabelText

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.backend import Backend
from kvxray_backend.exporter.engine_labels import GIVEN
from kvxray_backend.exporter.samples import Samples, label


def add_findings(samples: Samples, findings: Iterable[Finding], labels: LabelText) -> None:
    """Of one source or engine."""
    counted = Counter((finding.kind, finding.severity) for finding in findings if finding.state == "open")
    for (kind, severity), num in sorted(counted.items()):
        samples.add("kvxray_findings", num, labels.plus(kind=kind, severity=severity))


def add_alerts(samples: Samples, backend: Backend) -> None:
    alerts: Any = getattr(backend, "alerts", None)
    if alerts is None:
        return
    told = [(alert, "firing", alert.labels) for alert in alerts.active()]
    told += [(pending, "pending", {}) for pending in alerts.pending()]
    seen: set[tuple[str, str, str]] = set()
    for alert, state, given in told:
        if (alert.rule, alert.engine, state) in seen:
            continue
        seen.add((alert.rule, alert.engine, state))
        about = {name: label(given[name]) for name in (*GIVEN, "model", "role") if given.get(name)}
        labels = LabelText().plus(rule=alert.rule, severity=alert.severity, state=state, engine=label(alert.engine))
        samples.add("kvxray_alerts", 1, labels.plus(**about))
    samples.add("kvxray_rule_looks_total", getattr(alerts, "num_looks", None))
    samples.add("kvxray_rule_look_seconds_total", getattr(alerts, "looked_s", None))


def add_delivery(samples: Samples, backend: Backend) -> None:
    delivery: Any = getattr(backend, "delivery", None)
    if delivery is None:
        return
    for target in delivery.targets():
        labels = LabelText().plus(target=label(target.name))
        samples.add("kvxray_notifications_waiting", target.waiting, labels)
        if target.state != "unused":
            samples.add("kvxray_notification_target_up", float(target.state == "ok"), labels)
    for name, (delivered, failed) in delivery.counts().items() if hasattr(delivery, "counts") else ():
        target = LabelText().plus(target=label(name))
        samples.add("kvxray_notifications_total", delivered, target.plus(result="delivered"))
        samples.add("kvxray_notifications_total", failed, target.plus(result="failed"))
