"""What the figures that verdicts rest on are called, and which page shows more of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.figure import Figure
from kvxray_backend.overview_types import EvidenceView

PageName = Literal["live", "timelines"]

LABELS: Final[dict[str, tuple[str, PageName]]] = {
    "used": ("cache in use", "live"),
    "used_low": ("least in use, 1 min", "timelines"),
    "used_high": ("most in use, 1 min", "timelines"),
    "leaked": ("leaked blocks", "live"),
    "leaked_only": ("held by nobody living", "live"),
    "expired_leases": ("leases past their deadline", "live"),
    "running": ("running", "live"),
    "waiting": ("waiting", "live"),
    "oldest_wait_s": ("longest wait", "live"),
    "silent_s": ("since the last step", "timelines"),
    "hit_rate": ("hit rate, 60 s", "live"),
    "hit_rate_30m": ("hit rate, 30 min", "timelines"),
    "hit_rate_before": ("hit rate an hour ago", "timelines"),
    "hit_rate_day": ("hit rate, 1 day", "timelines"),
    "queried_30m": ("tokens looked up, 30 min", "timelines"),
    "preemptions_10m": ("preemptions, 10 min", "timelines"),
    "preemptions_per_finished": ("preemptions per finished request", "timelines"),
    "finished_10m": ("finished, 10 min", "timelines"),
    "ttft_5m_s": ("first token, 5 min", "timelines"),
    "ttft_hour_s": ("first token, hour before", "timelines"),
    "queue_p50_s": ("of it waiting, median", "timelines"),
    "prefill_p50_s": ("of it computing, median", "timelines"),
    "affinity_lost": ("cached tokens left unused, 30 min", "timelines"),
}


def evidence_view(name: str, figure: Figure, findings: Iterable[Finding]) -> EvidenceView:
    label, page = LABELS[name]
    query = _leaking_request(findings) if name in ("leaked", "leaked_only") else {}
    return EvidenceView(name=name, label=label, figure=figure, page=page, query=query)


def _leaking_request(findings: Iterable[Finding]) -> dict[str, str]:
    """The request that keeps most blocks after its end: the live page lights them up."""
    leaks = [finding for finding in findings if finding.kind == "leak" and finding.subjects.requests]
    worst = max(leaks, key=lambda finding: finding.numbers.get("blocks", 0), default=None)
    return {"request": worst.subjects.requests[0]} if worst is not None else {}
