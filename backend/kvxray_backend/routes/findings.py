"""`/api/findings`: leaks, gaps, restarts and the like, open and past."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from kvxray_storage import history

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.api_types import FindingsView
from kvxray_backend.backend import Backend, Source
from kvxray_backend.moments import Moment
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.routes.dependencies import AnySourceDep, BackendDep, DeskDep, MomentDep, name_of
from kvxray_backend.stored_findings import finding_of

router = APIRouter(tags=["findings"])


@router.get("/findings")
def findings(
    backend: BackendDep,
    desk: DeskDep,
    source: AnySourceDep,
    moment: MomentDep,
    state: Annotated[Literal["open", "ended", "all"], Query(description="open, ended or all.")] = "all",
    kind: Annotated[str | None, Query(max_length=80, description="Only those of this kind.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 1000,
) -> FindingsView:
    """What was found, newest first: at a past moment, what was open then. Open ones are as they are now, ended ones as
    they were stored.
    """
    if not moment.is_live:
        then = _open_at(backend, desk, source, moment) if state != "ended" else ()
        newest = sorted(_of_kind(then, kind), key=lambda finding: finding.time_ns, reverse=True)
        return FindingsView(findings=newest[:limit], total=len(newest))
    current = {finding.id: finding for finding in _of_kind(_open_at(backend, desk, source, moment), kind)}
    found = list(current.values()) if state != "ended" else []
    total = len(found)
    if state != "open":
        # What is stored as open is open still, or has ended a moment ago and its row follows.
        which = backend.database, name_of(source), "ended"
        stored = [finding_of(row) for row in history.findings(*which, limit, kind)]
        ended = [finding for finding in stored if finding.id not in current]
        found += ended
        total += history.num_findings(*which, kind) - (len(stored) - len(ended))
    found.sort(key=lambda finding: (finding.time_ns, finding.id), reverse=True)
    return FindingsView(findings=found[:limit], total=total)


def _open_at(
    backend: Backend, desk: ResidencyDesk, source: Source | ForeignSource, moment: Moment
) -> tuple[Finding, ...]:
    """What was open at a moment. Raises `NotStored`."""
    if isinstance(source, ForeignSource):
        return desk.at(source, moment).findings
    return source.live.findings if moment.is_live else backend.past_at(source, moment).findings


def _of_kind(findings: Iterable[Finding], kind: str | None) -> list[Finding]:
    return [finding for finding in findings if kind in (None, finding.kind)]
