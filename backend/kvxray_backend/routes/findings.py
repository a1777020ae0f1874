"""`/api/findings`: leaks, gaps, restarts and the like, open and past."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from kvxray_storage import history

from kvxray_backend.api_types import FindingsView
from kvxray_backend.routes.dependencies import BackendDep, MomentDep, SourceDep
from kvxray_backend.stored_findings import finding_of

router = APIRouter(tags=["findings"])


@router.get("/findings")
def findings(
    backend: BackendDep,
    source: SourceDep,
    moment: MomentDep,
    state: Annotated[Literal["open", "ended", "all"], Query(description="open, ended or all.")] = "all",
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 1000,
) -> FindingsView:
    """What was found, newest first: at a past moment, what was open then. Open ones are as they are now, ended ones as
    they were stored.
    """
    if not moment.is_live:
        then = backend.past_at(source, moment).findings if state != "ended" else ()
        return FindingsView(findings=sorted(then, key=lambda finding: finding.time_ns, reverse=True)[:limit])
    current = {finding.id: finding for finding in source.live.findings}
    if state == "open":
        found = list(current.values())
    else:
        stored = [finding_of(row) for row in history.findings(backend.database, source.live.source, "all", limit)]
        # What was stored as open and is not any more has ended a moment ago; its row follows.
        found = [finding for finding in stored if finding.state == "ended" and finding.id not in current]
        found += list(current.values()) if state == "all" else []
    found.sort(key=lambda finding: (finding.time_ns, finding.id), reverse=True)
    return FindingsView(findings=found[:limit])
