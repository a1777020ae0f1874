"""What one commit holds, as statements: everything of it is stored together, or nothing.

Repeating a batch changes nothing: rows that are there already stay, counts are absolute.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from kvxray_engine.stream.schema import Name

from kvxray_storage import models
from kvxray_storage.chunk_builder import ClosedChunk
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.fold_rows import OpenRollup, rewind, write_keyframes, write_rollups
from kvxray_storage.postings import posting_rows
from kvxray_storage.records import EpochKey, FindingRow, Gap, Keyframe, OpenedEpoch, Repair
from kvxray_storage.row_sums import DESCRIPTOR, sum_of, summed
from kvxray_storage.upserts import Row, insert_into, insert_new, insert_new_tuples, upsert

Narrow = tuple[Any, ...]
_NAME: Final = ("source_id", "epoch", "ordinal", "id", "detail", "crc")
"""Columns of rows that come by the thousand, in the order of their table."""
_ROW_BYTES: Final = 256
"""About what a server needs for a row of names with its indexes,"""
_POSTING_BYTES: Final = 32
"""for what is said of one holder in a row of postings, most of which have a dozen,"""
_ROLLUP_BYTES: Final = 1024
"""and for one of the wide rollups."""
_JSON: Final = msgspec.json.Encoder()
_USUAL: Final = "request"


class _Detail(msgspec.Struct, omit_defaults=True, gc=False):
    """What there is to say of a holder beside its id: stored is what is not usual."""

    kind: str = _USUAL
    parent: int = -1
    deadline: int = 0
    tenant: str = ""
    session: str = ""
    lora: str = ""
    salt: str = ""


@dataclass(slots=True, eq=False)
class CommitBatch:
    """Epochs are written first, since all else refers to them. `records`: gaps and repairs, in order.

    `drafts`: keyframes that are being packed; there are none any more when it is written.

    `rollups`: the rows that the fold touched. `rewinds`: epochs in which something was stored before what was folded
    already, with its message number: what the fold made from there on is taken back, and made again later.

    `progress`: the state of each epoch after this batch. `queue_bytes`, `record_bytes`: what the queue gets back.
    """

    epochs: list[OpenedEpoch] = field(default_factory=list)
    chunks: list[ClosedChunk] = field(default_factory=list)
    keyframes: list[Keyframe] = field(default_factory=list)
    drafts: list[Future[Keyframe]] = field(default_factory=list)
    records: list[Gap | Repair] = field(default_factory=list)
    findings: list[FindingRow] = field(default_factory=list)
    rollups: list[OpenRollup] = field(default_factory=list)
    rewinds: dict[EpochKey, int] = field(default_factory=dict)
    progress: dict[EpochKey, Progress] = field(default_factory=dict)
    queue_bytes: int = 0
    record_bytes: int = 0

    @property
    def num_parts(self) -> int:
        """Chunks and keyframes."""
        return len(self.chunks) + len(self.keyframes) + len(self.drafts)

    def __bool__(self) -> bool:
        return bool(self.epochs or self.chunks or self.keyframes or self.records or self.findings)

    @property
    def is_place(self) -> bool:
        """Whether it stores a place at which history may begin from now on: a keyframe, or an epoch that follows on
        another.
        """
        return bool(self.keyframes or self.epochs)

    @property
    def num_bytes(self) -> int:
        """About so many it adds to a database."""
        chunks = sum(chunk.num_bytes for chunk in self.chunks)
        names = _ROW_BYTES * sum(len(chunk.names) for chunk in self.chunks)
        postings = _POSTING_BYTES * sum(len(chunk.holders) for chunk in self.chunks)
        frames = sum(len(frame.state) + _ROW_BYTES * len(frame.names or ()) for frame in self.keyframes)
        return chunks + frames + names + postings + _ROLLUP_BYTES * len(self.rollups)

    def epochs_moved(self) -> set[EpochKey]:
        """The epochs that anything in it belongs to."""
        return {entry.key for entry in (*self.epochs, *self.chunks, *self.keyframes, *self.records)}

    def write(self, connection: sa.Connection) -> None:
        """Runs inside the caller's transaction."""
        assert not self.drafts, "a keyframe would be lost"
        for opened in self.epochs:
            _write_epoch(connection, opened)
        insert_new(connection, models.chunk, [_chunk_row(chunk) for chunk in self.chunks])
        write_keyframes(connection, self.keyframes)
        write_rollups(connection, self.rollups)
        for key, wire_seq in self.rewinds.items():
            rewind(connection, key, wire_seq)
        insert_new_tuples(connection, models.name, _NAME, self._name_rows())
        insert_new(connection, models.posting, self._posting_rows())
        for record in self.records:
            _write_record(connection, record)
        upsert(connection, models.finding, [_finding_row(finding) for finding in self.findings], ["id"])
        for progress in self.progress.values():
            _write_progress(connection, progress)
        for chunk in self.chunks:
            if chunk.descriptor:
                _update_epoch(connection, chunk.key, _descriptor(chunk.key, chunk.descriptor.decode()))

    def _name_rows(self) -> list[Narrow]:
        told = [row for chunk in self.chunks for row in _name_rows(chunk.key, enumerate(chunk.names, chunk.req0))]
        kept = [row for frame in self.keyframes for row in _name_rows(frame.key, (frame.names or {}).items())]
        return told + kept

    def _posting_rows(self) -> list[Row]:
        by_epoch: dict[EpochKey, list[ClosedChunk]] = {}
        for chunk in self.chunks:
            by_epoch.setdefault(chunk.key, []).append(chunk)
        return [row for key, chunks in by_epoch.items() for row in posting_rows(key, chunks)]


def _key_row(key: EpochKey) -> Row:
    return {"source_id": key.source_id, "epoch": key.epoch}


def _chunk_row(chunk: ClosedChunk) -> Row:
    copied = (
        "wire_seq0", "wire_seq1", "seq0", "seq1", "num_events", "req0", "hash0", "num_hash", "t0_ns", "t1_ns",
        "counts", "bits", "hash_bits", "data",
    )  # fmt: skip
    fields = {name: getattr(chunk, name) for name in copied}
    return {**_key_row(chunk.key), **fields, "num_req": len(chunk.names), "num_bytes": chunk.num_bytes}


def _name_rows(key: EpochKey, names: Iterable[tuple[int, Name]]) -> list[Narrow]:
    rows = ((key.source_id, key.epoch, ordinal, *name_texts(name)) for ordinal, name in names)
    return [(*row, sum_of(row)) for row in rows]


def name_texts(name: Name) -> tuple[str, str]:
    """`id` and `detail`. PostgreSQL has no NUL in text; nobody's request id needs one."""
    # What is usual is left out where it is the very same object; numbers this small and the empty text always are.
    kind = _USUAL if name.kind == _USUAL else name.kind
    told = _Detail(kind, name.parent, name.deadline, name.tenant, name.session, name.lora, name.salt)
    return name.id.replace("\0", "\ufffd"), _JSON.encode(told).decode()


def whole_detail(name: Name) -> str:
    """`detail` as an older kvxray wrote it."""
    return _JSON.encode(
        (name.kind, name.parent, name.deadline, name.tenant, name.session, name.lora, name.salt)
    ).decode()


def _finding_row(finding: FindingRow) -> Row:
    copied = (
        "id", "source", "epoch", "seq0", "seq1", "kind", "severity", "state", "ended_ns", "certainty", "sentence",
    )  # fmt: skip
    row = {
        **{name: getattr(finding, name) for name in copied},
        "at_ns": finding.time_ns,
        "subjects": msgspec.json.encode(dict(finding.subjects)).decode(),
        "numbers": msgspec.json.encode(dict(finding.numbers)).decode(),
    }
    return summed(models.finding, row)


def _write_epoch(connection: sa.Connection, opened: OpenedEpoch) -> None:
    """The source and its epoch; whatever other epoch of the source was open ends here."""
    if opened.is_past:
        _update_epoch(connection, opened.key, _descriptor(opened.key, opened.descriptor))
        return
    source_id = opened.key.source_id
    source = {"source_id": source_id, "name": opened.source, "labels": opened.labels, "created_ns": opened.wall_ns}
    upsert(connection, models.source, [summed(models.source, source)], ["source_id"], ["labels", "crc"])
    epoch = models.epoch
    connection.execute(
        sa.update(epoch)
        .where(epoch.c.source_id == source_id, epoch.c.epoch != opened.key.epoch, epoch.c.ended_ns.is_(None))
        .values(ended_ns=opened.wall_ns)
    )
    row = {
        **_key_row(opened.key), "incarnation": opened.incarnation, "first_descriptor": opened.descriptor,
        **_descriptor(opened.key, opened.descriptor), "started_ns": opened.wall_ns, "ended_ns": None,
        "num_events": 0, "num_chunks": 0, "importing_ns": None,
    }  # fmt: skip
    # What its engine goes on with is no longer what an import left.
    changed = ["descriptor", "descriptor_crc", "ended_ns", "importing_ns"]
    upsert(connection, epoch, [summed(epoch, row)], ["source_id", "epoch"], changed)


def _descriptor(key: EpochKey, text: str) -> Row:
    row = {**_key_row(key), "descriptor": text}
    return {"descriptor": text, "descriptor_crc": sum_of(row[name] for name in DESCRIPTOR)}


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
    insert = insert_into(connection.dialect.name, gap).values(summed(gap, row))
    # All of it, so that the sum is that of what stands there.
    longer = {name: insert.excluded[name] for name in ("wire_seq1", "seq0", "seq1", "at_ns", "reason", "crc")}
    key = ["source_id", "epoch", "wire_seq0"]
    is_longer = insert.excluded.wire_seq1 > gap.c.wire_seq1
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=longer, where=is_longer))


def _write_progress(connection: sa.Connection, progress: Progress) -> None:
    key = _key_row(progress.key)
    if progress.cursor is not None:
        row = {**key, "next_wire_seq": progress.next_wire_seq, "next_seq": progress.next_seq}
        upsert(connection, models.cursor, [row], ["source_id", "epoch"])
    copied = ["first_seq", "last_seq", "last_ns", "num_events", "num_chunks"]
    _update_epoch(connection, progress.key, {name: getattr(progress, name) for name in copied})


def _update_epoch(connection: sa.Connection, key: EpochKey, values: Row) -> None:
    epoch = models.epoch
    here = (epoch.c.source_id == key.source_id) & (epoch.c.epoch == key.epoch)
    connection.execute(sa.update(epoch).where(here).values(values))
