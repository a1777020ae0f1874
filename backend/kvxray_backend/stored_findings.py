"""Findings to rows of the event log and back."""

from __future__ import annotations

from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.records import FindingRow
from pydantic import ValidationError

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.leaks import leak_endings, mark_of
from kvxray_backend.analysis.stream_health import STALE_WHEN_OVER, STORAGE_WHEN_OVER


def row_of(finding: Finding) -> FindingRow:
    return FindingRow(
        id=finding.id,
        kind=finding.kind,
        severity=finding.severity,
        source=finding.source,
        epoch=finding.epoch,
        seq0=finding.seq0,
        seq1=finding.seq1,
        time_ns=finding.time_ns,
        state=finding.state,
        ended_ns=finding.ended_ns,
        subjects=finding.subjects.model_dump(mode="json"),
        numbers=finding.numbers,
        certainty=finding.certainty,
        sentence=finding.sentence,
    )


def finding_of(row: FindingRow) -> Finding:
    """Checked like any input: the database may have been written by another version. Raises DamagedChunk."""
    fields = {name: getattr(row, name) for name in FindingRow.__dataclass_fields__}
    try:
        finding = Finding.model_validate(fields)
    except ValidationError as error:
        raise DamagedChunk(f"The finding {row.id} cannot be read.") from error
    if finding.kind == "leak":
        finding = finding.model_copy(update={"mark": mark_of(finding.sentence)})
    return finding.model_copy(update=_endings(finding)) if finding.state == "open" else finding


def _endings(finding: Finding) -> dict[str, str]:
    """How an open finding will be told once it is over; that is not stored."""
    match finding.kind:
        case "stale":
            return {"sentence_when_over": STALE_WHEN_OVER}
        case "storage":
            return {"sentence_when_over": STORAGE_WHEN_OVER}
        case "leak":
            who = " ".join(finding.subjects.requests) or finding.id
            when_over, when_engine_ended = leak_endings(who, int(finding.numbers.get("blocks", 0)))
            return {"sentence_when_over": when_over, "sentence_when_engine_ended": when_engine_ended}
    return {}
