"""A verdict as the API tells it, with the figures that it rests on."""

from __future__ import annotations

from collections.abc import Iterable

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.verdict_signs import Verdict
from kvxray_backend.figure import Figure
from kvxray_backend.overview_evidence import evidence_view
from kvxray_backend.overview_types import VerdictView


def verdict_view(verdict: Verdict, figures: dict[str, Figure], findings: Iterable[Finding]) -> VerdictView:
    return VerdictView(
        status=verdict.status,
        cause=verdict.cause,
        rule=verdict.rule,
        sentence=verdict.sentence,
        advice=verdict.advice,
        evidence=[evidence_view(name, figures[name], findings) for name in verdict.evidence if name in figures],
        also=list(verdict.also),
        not_judged=list(verdict.not_judged),
    )
