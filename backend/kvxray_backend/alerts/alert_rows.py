"""Alerts to rows of the event log and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from kvxray_engine.errors import UserError
from kvxray_storage.alerts import AlertRow
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.records import FindingRow
from pydantic import ValidationError

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.stored_findings import finding_of, row_of

_IN_COLUMNS = ("id", "rule", "engine", "severity", "state", "began_ns", "fired_ns", "ended_ns")


def alert_row(alert: Alert) -> AlertRow:
    evidence = {
        "labels": alert.labels,
        "moment": {name: getattr(alert.moment, name) for name in type(alert.moment).model_fields},
        "sentence": alert.sentence,
        "culprit": alert.culprit,
        "over_because": alert.over_because,
        "findings": [asdict(row_of(finding)) for finding in alert.findings],
        "num_findings": alert.num_findings,
        "numbers": [one.model_dump() for one in alert.numbers],
    }
    # As JSON writes it no text holds a character that a database refuses.
    told: dict[str, Any] = {name: getattr(alert, name) for name in _IN_COLUMNS}
    return AlertRow(**told, evidence=json.dumps(evidence))


def alert_of_row(row: AlertRow) -> Alert:
    """Checked like any input: the database may have been written by another version. Raises DamagedChunk."""
    try:
        evidence = json.loads(row.evidence)
        findings = [finding_of(FindingRow(**one)) for one in evidence.pop("findings", ())]
        columns = {name: getattr(row, name) for name in _IN_COLUMNS}
        return Alert.model_validate({**evidence, **columns, "findings": findings})
    except (ValueError, TypeError, AttributeError, ValidationError, UserError) as error:
        raise DamagedChunk(f"The alert {row.id} cannot be read.") from error
