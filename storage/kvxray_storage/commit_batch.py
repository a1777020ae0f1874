"""What one commit holds, as statements: everything of it is stored together, or nothing.

Repeating a batch changes nothing: rows that are there already stay, counts are absolute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa
from kvxray_engine.stream.schema import Name
from sqlalchemy.dialects import postgresql, sqlite

from kvxray_storage import models
from kvxray_storage.chunk_builder import ClosedChunk
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.records import EpochKey, FindingRow, Gap, Keyframe, OpenedEpoch, Repair

Row = dict[str, Any]


@dataclass(slots=True, eq=False)
class CommitBatch:
    """Epochs are written first, since all else refers to them. `records`: gaps and repairs, in order.

    `progress`: the state of each epoch after this batch. `queue_bytes`, `record_bytes`: what the queue gets back.
    """

    epochs: list[OpenedEpoch] = field(default_factory=list)
    chunks: list[ClosedChunk] = field(default_factory=list)
    keyframes: list[Keyframe] = field(default_factory=list)
    records: list[Gap | Repair] = field(default_factory=list)
    findings: list[FindingRow] = field(default_factory=list)
    progress: dict[EpochKey, Progress] = field(default_factory=dict)
    queue_bytes: int = 0
    record_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.epochs or self.chunks or self.keyframes or self.records or self.findings)

    def epochs_moved(self) -> set[EpochKey]:
        """The epochs that anything in it belongs to."""
        return {entry.key for entry in (*self.epochs, *self.chunks, *self.keyframes, *self.records)}

    def write(self, connection: sa.Connection) -> None:
        """Runs inside the caller's transaction."""
        for opened in self.epochs:
            _write_epoch(connection, opened)
        _insert_new(connection, models.chunk, [_chunk_row(chunk) for chunk in self.chunks])
        _insert_new(connection, models.keyframe, [_keyframe_row(keyframe) for keyframe in self.keyframes])
        _insert_new(connection, models.name, self._name_rows())
        _insert_new(connection, models.request_chunk, self._posting_rows())
        for record in self.records:
            _write_record(connection, record)
        _upsert(connection, models.finding, [_finding_row(finding) for finding in self.findings], ["id"])
        for progress in self.progress.values():
            _write_progress(connection, progress)
        for chunk in self.chunks:
            if chunk.descriptor:
                _update_epoch(connection, chunk.key, {"descriptor": chunk.descriptor.decode()})

    def _name_rows(self) -> list[Row]:
        told = [row for chunk in self.chunks for row in _name_rows(chunk.key, enumerate(chunk.names, chunk.req0))]
        kept = [row for frame in self.keyframes for row in _name_rows(frame.key, (frame.names or {}).items())]
        return told + kept

    def _posting_rows(self) -> list[Row]:
        """One row for each holder and epoch: the run of this batch's chunks that it occurs in."""
        runs: dict[tuple[EpochKey, int], tuple[int, int]] = {}
        for chunk in self.chunks:
            for holder in chunk.holders.tolist():
                first, last = runs.get((chunk.key, holder), (chunk.wire_seq0, chunk.wire_seq1))
                runs[chunk.key, holder] = (min(first, chunk.wire_seq0), max(last, chunk.wire_seq1))
        return [
            {**_key_row(key), "req": holder, "wire_seq0": first, "wire_seq1": last}
            for (key, holder), (first, last) in runs.items()
        ]


def _key_row(key: EpochKey) -> Row:
    return {"source_id": key.source_id, "epoch": key.epoch}


def _chunk_row(chunk: ClosedChunk) -> Row:
    copied = (
        "wire_seq0", "wire_seq1", "seq0", "seq1", "num_events", "req0", "hash0", "num_hash", "t0_ns", "t1_ns",
        "counts", "bits", "data",
    )  # fmt: skip
    return {**_key_row(chunk.key), **{name: getattr(chunk, name) for name in copied}, "num_req": len(chunk.names)}


def _keyframe_row(keyframe: Keyframe) -> Row:
    copied = ("seq", "wire_seq", "t_ns", "kind", "state")
    return {**_key_row(keyframe.key), **{name: getattr(keyframe, name) for name in copied}}


def _name_rows(key: EpochKey, names: Iterable[tuple[int, Name]]) -> list[Row]:
    # PostgreSQL has no NUL in text; nobody's request id needs one.
    return [
        {**_key_row(key), "ordinal": ordinal, "id": name.id.replace("\0", "\ufffd"), "detail": _detail(name)}
        for ordinal, name in names
    ]


def _detail(name: Name) -> str:
    rest = [name.kind, name.parent, name.deadline, name.tenant, name.session, name.lora, name.salt]
    return msgspec.json.encode(rest).decode()


def _finding_row(finding: FindingRow) -> Row:
    copied = (
        "id", "source", "epoch", "seq0", "seq1", "kind", "severity", "state", "ended_ns", "certainty", "sentence",
    )  # fmt: skip
    return {
        **{name: getattr(finding, name) for name in copied},
        "at_ns": finding.time_ns,
        "subjects": msgspec.json.encode(dict(finding.subjects)).decode(),
        "numbers": msgspec.json.encode(dict(finding.numbers)).decode(),
    }


def _write_epoch(connection: sa.Connection, opened: OpenedEpoch) -> None:
    """The source and its epoch; whatever other epoch of the source was open ends here."""
    source_id = opened.key.source_id
    source = {"source_id": source_id, "name": opened.source, "labels": opened.labels, "created_ns": opened.wall_ns}
    _upsert(connection, models.source, [source], ["source_id"], ["labels"])
    epoch = models.epoch
    connection.execute(
        sa.update(epoch)
        .where(epoch.c.source_id == source_id, epoch.c.epoch != opened.key.epoch, epoch.c.ended_ns.is_(None))
        .values(ended_ns=opened.wall_ns)
    )
    row = {
        **_key_row(opened.key), "incarnation": opened.incarnation, "descriptor": opened.descriptor,
        "started_ns": opened.wall_ns, "ended_ns": None, "num_events": 0, "num_chunks": 0,
    }  # fmt: skip
    _upsert(connection, epoch, [row], ["source_id", "epoch"], ["descriptor", "ended_ns"])


def _write_record(connection: sa.Connection, record: Gap | Repair) -> None:
    gap = models.gap
    if isinstance(record, Repair):
        connection.execute(
            sa.update(gap)
            .where(gap.c.source_id == record.key.source_id, gap.c.epoch == record.key.epoch)
            .where(gap.c.wire_seq0 >= record.wire_seq0, gap.c.wire_seq1 <= record.wire_seq1)
            .where(gap.c.repaired_ns.is_(None))
            .values(repaired_ns=record.wall_ns)
        )
        return
    copied = ("wire_seq0", "wire_seq1", "seq0", "seq1", "reason")
    row = {**_key_row(record.key), **{name: getattr(record, name) for name in copied}, "at_ns": record.wall_ns}
    insert = _dialect_insert(connection, gap).values(row)
    longer = {"wire_seq1": insert.excluded.wire_seq1, "seq1": insert.excluded.seq1}
    key = ["source_id", "epoch", "wire_seq0"]
    is_longer = insert.excluded.wire_seq1 > gap.c.wire_seq1
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=longer, where=is_longer))


def _write_progress(connection: sa.Connection, progress: Progress) -> None:
    key = _key_row(progress.key)
    if progress.cursor is not None:
        row = {**key, "next_wire_seq": progress.next_wire_seq, "next_seq": progress.next_seq}
        _upsert(connection, models.cursor, [row], ["source_id", "epoch"])
    copied = ["first_seq", "last_seq", "last_ns", "num_events", "num_chunks"]
    _update_epoch(connection, progress.key, {name: getattr(progress, name) for name in copied})


def _update_epoch(connection: sa.Connection, key: EpochKey, values: Row) -> None:
    epoch = models.epoch
    here = (epoch.c.source_id == key.source_id) & (epoch.c.epoch == key.epoch)
    connection.execute(sa.update(epoch).where(here).values(values))


def _dialect_insert(connection: sa.Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def _insert_new(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Stores the rows whose keys are not there yet."""
    if rows:
        connection.execute(_dialect_insert(connection, table).on_conflict_do_nothing(), rows)


def _upsert(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Row], key: list[str], changed: list[str] | None = None
) -> None:
    """Stores the rows; where the key is there, only the columns `changed` (None: all others) become the new ones."""
    if not rows:
        return
    insert = _dialect_insert(connection, table)
    names = [name for name in rows[0] if name not in key] if changed is None else changed
    update = {name: insert.excluded[name] for name in names}
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=update), rows)
