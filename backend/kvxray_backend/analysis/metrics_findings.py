"""What an engine's metrics say against themselves, its events and its configuration, as findings. Pure."""

from __future__ import annotations

from typing import Final

from kvxray_backend.analysis.finding import Finding, Severity
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.metrics.book import Reset
from kvxray_backend.metrics.configuration_check import Reason
from kvxray_backend.metrics.contradictions import Contradiction, Kind

_SEVERITY: Final[dict[Kind, Severity]] = {
    "metrics_contradiction": "warning",
    "conservation_violation": "critical",
    "hit_rate_suspect": "info",
}


def counter_reset_finding(place: Place, reset: Reset) -> Finding:
    """A moment."""
    return place.finding(
        "counter_reset",
        "warning",
        f"{reset.sentence}.",
        int(reset.at_s * 1000),
        numbers={"counters": len(reset.signals)},
    ).ended(place.t_ns)


def contradiction_finding(place: Place, found: Contradiction) -> Finding:
    """Open for as long as it is found; its id names what it is about."""
    finding = place.finding(
        found.kind,
        _SEVERITY[found.kind],
        f"{_begun(found.sentence)}.",
        numbers=dict(found.numbers),
    )
    return finding.model_copy(update={"id": f"{found.kind}:{place.source}:{place.epoch}:{found.subject}"})


def config_finding(place: Place, reason: Reason) -> Finding:
    """Why the prefix cache does nothing, or less than one would think; its id names the reason."""
    severity: Severity = "warning" if reason.does_nothing else "info"
    finding = place.finding("config", severity, f"{_begun(reason.sentence)}.", certainty="derived")
    return finding.model_copy(update={"id": f"config:{place.source}:{place.epoch}:{reason.code}"})


def _begun(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"
