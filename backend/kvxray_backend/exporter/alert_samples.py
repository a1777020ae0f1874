"""Samples of findings that are open, of alerts, and of how those who are told of alerts take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

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
    """One for each rule and engine, whether it fires or is about to."""
    watch = backend.alerts
    told: dict[tuple[str, str, str], tuple[str, Mapping[str, str]]] = {}
    for alert in watch.active():
        told[alert.rule, alert.engine, "firing"] = alert.severity, alert.labels
    for pending in watch.pending():
        told[pending.rule, pending.engine, "pending"] = pending.severity, {}
    for (rule, engine, state), (severity, given) in told.items():
        labels = LabelText().plus(rule=rule, severity=severity, state=state, engine=label(engine))
        about = {name: label(given[name]) for name in (*GIVEN, "model", "role") if given.get(name)}
        samples.add("kvxray_alerts", 1, labels.plus(**about))
    samples.add("kvxray_rule_looks_total", watch.num_looks)
    samples.add("kvxray_rule_look_seconds_total", watch.looked_s)


def add_delivery(samples: Samples, backend: Backend) -> None:
    """Targets, each by its name."""
    for target in backend.delivery.targets():
        labels = LabelText().plus(target=label(target.name))
        samples.add("kvxray_notifications_waiting", target.waiting, labels)
        if target.state != "unused":
            samples.add("kvxray_notification_target_up", float(target.state == "ok"), labels)
    for name, (delivered, failed) in backend.delivery.counts().items():
        labels = LabelText().plus(target=label(name))
        samples.add("kvxray_notifications_total", delivered, labels.plus(result="delivered"))
        samples.add("kvxray_notifications_total", failed, labels.plus(result="failed"))
