"""Findings to rows of the event log and back."""

from __future__ import annotations

from kvxray_storage.records import FindingRow

from kvxray_backend.analysis.finding import Finding


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
    """Checked like any input: the database may have been written by another version."""
    fields = {name: getattr(row, name) for name in FindingRow.__dataclass_fields__}
    return Finding.model_validate(fields)
