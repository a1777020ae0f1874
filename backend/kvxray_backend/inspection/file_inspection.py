"""One file, read once and followed to its end, as a report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvxray_engine.errors import UserError
from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.inspection.inspection_report import FileReport
from kvxray_backend.inspection.recorded_batches import RecordedBatches
from kvxray_backend.inspection.recorded_formats import NAMES
from kvxray_backend.inspection.recorded_lines import RecordedLines
from kvxray_backend.inspection.recording_inspector import RecordingInspector
from kvxray_backend.quantities import counted


def inspected(path: Path, at: int | None = None, store_semantics: StoreSemantics = "unknown") -> FileReport:
    """at: number of the last batch that counts, of each stream. Raises `UserError` for what cannot be read."""
    inspector = RecordingInspector(at, store_semantics)
    with RecordedLines(path) as lines:
        batches = RecordedBatches(lines)
        for recorded in batches:
            inspector.take(recorded)
    inspector.finish()
    assert batches.format is not None, "an empty file is refused"
    streams = inspector.reports(batches.format)
    if not streams and not inspector.num_beyond and not batches.num_left_out:
        raise UserError(f"Not one line of {path} can be read as {NAMES[batches.format]}.")
    return FileReport(
        file=str(path),
        format=NAMES[batches.format],
        num_lines=lines.number,
        num_bad=batches.num_bad,
        is_cut=lines.is_cut,
        notes=tuple(_notes(inspector, batches, at)),
        streams=streams,
    )


def _notes(inspector: RecordingInspector, batches: RecordedBatches, at: int | None) -> Iterator[str]:
    if inspector.num_beyond:
        yield f"{_batches(inspector.num_beyond)} after number {at:,} left out."
    if inspector.num_refused:
        yield f"{_batches(inspector.num_refused)} of more streams than are told apart left out."
    if batches.num_left_out:
        yield f"{counted(batches.num_left_out, 'step')} of cases left out that are no batches of events."


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number:,} batches"
