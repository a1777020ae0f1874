"""What retention takes away, as statements: each function is one short transaction of the writer, and repeatable."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.postings import holders_between
from kvxray_storage.records import EpochKey
from kvxray_storage.retention import Edge
from kvxray_storage.row_sums import summed
from kvxray_storage.state_kinds import holds_a_state

CHUNKS_AT_ONCE: Final = 32
ROWS_AT_ONCE: Final = 2_000
SECONDS_AT_ONCE: Final = 3_600


class EdgeIsGone(Exception):
    """Since the plan was made, something came that it did not know of; the next plan does."""


def begin_at(connection: sa.Connection, edge: Edge, state: bytes | None) -> None:
    """History begins at the edge: what it was told by before is deleted. state: the keyframe there with the bytes of
    its hashes, None where it has them already. From now on it is what the state is known from.
    """
    frame, epoch, gap = models.keyframe, models.epoch, models.gap
    here = of_epoch(frame, edge.key)
    if edge.wire_seq is None:
        connection.execute(sa.delete(frame).where(*here))
    else:
        at_edge = (*here, frame.c.seq == edge.seq, frame.c.wire_seq == edge.wire_seq, holds_a_state())
        if connection.execute(sa.select(frame.c.seq).where(*at_edge)).first() is None:
            raise EdgeIsGone
        # First what gives room, then what takes it.
        connection.execute(sa.delete(frame).where(*here, frame.c.seq < edge.seq))
        if state is not None:
            told = {"state": state, "num_bytes": len(state), "origin": "snapshot"}
            connection.execute(sa.update(frame).where(*at_edge).values(**told))
    _delete_before(connection, gap, gap.c.wire_seq1, edge)
    last = _last_before(connection, edge)
    if last is not None:
        later = sa.or_(epoch.c.pruned_seq.is_(None), epoch.c.pruned_seq < last)
        moved = sa.update(epoch).where(*of_epoch(epoch, edge.key), later)
        connection.execute(moved.values(pruned_seq=last, pruned_ns=edge.t_ns))


def delete_chunks(connection: sa.Connection, edge: Edge) -> None:
    """The oldest few before the edge."""
    chunk, epoch = models.chunk, models.epoch
    query = sa.select(chunk.c.wire_seq0, chunk.c.num_events).where(*_before(chunk, chunk.c.wire_seq1, edge))
    rows = connection.execute(query.order_by(chunk.c.wire_seq0).limit(CHUNKS_AT_ONCE)).all()
    if not rows:
        return
    gone = chunk.c.wire_seq0.in_([row.wire_seq0 for row in rows])
    connection.execute(sa.delete(chunk).where(*of_epoch(chunk, edge.key), gone))
    counted = {
        "pruned_chunks": epoch.c.pruned_chunks + len(rows),
        "pruned_events": epoch.c.pruned_events + sum(row.num_events for row in rows),
    }
    connection.execute(sa.update(epoch).where(*of_epoch(epoch, edge.key)).values(counted))


def delete_postings(connection: sa.Connection, edge: Edge, first: int, last: int) -> None:
    """Of the buckets first..last."""
    table = models.posting
    connection.execute(
        sa.delete(table).where(*_before(table, table.c.wire_seq1, edge), table.c.bucket.between(first, last))
    )


def delete_names(connection: sa.Connection, key: EpochKey, first: int, last: int, spoken_of: Collection[str]) -> None:
    """Of the holders first..last, those that no stored event names. spoken_of: ids that findings name."""
    name, named = models.name, holders_between(connection, key, first, last)
    query = sa.select(name.c.ordinal, name.c.id).where(*of_epoch(name, key), name.c.ordinal.between(first, last))
    told = connection.execute(query).all()
    gone = [row.ordinal for row in told if row.ordinal not in named and row.id not in spoken_of]
    for some in _slices(gone, 500):
        connection.execute(sa.delete(name).where(*of_epoch(name, key), name.c.ordinal.in_(some)))


def delete_keyframes(connection: sa.Connection, key: EpochKey, seqs: Iterable[int]) -> None:
    """Periodic ones only."""
    frame = models.keyframe
    for some in _slices(list(seqs), 500):
        here = (*of_epoch(frame, key), frame.c.seq.in_(some), holds_a_state(), frame.c.origin == "periodic")
        connection.execute(sa.delete(frame).where(*here))


def delete_rollups(connection: sa.Connection, source_id: int, span: int, before_s: int) -> int:
    """The oldest rows that begin before that second, at most an hour of seconds or 60 of minutes; how many."""
    table = TABLES[span]
    first = connection.execute(sa.select(sa.func.min(table.c.t_s)).where(table.c.source_id == source_id)).scalar()
    if first is None or first >= before_s:
        return 0
    end = min(before_s, int(first) + SECONDS_AT_ONCE * span)
    gone = sa.delete(table).where(table.c.source_id == source_id, table.c.t_s < end)
    return connection.execute(gone).rowcount


def delete_findings(connection: sa.Connection, source: str, before_ns: int) -> None:
    """Those that ended before."""
    finding = models.finding
    connection.execute(sa.delete(finding).where(finding.c.source == source, finding.c.ended_ns < before_ns))


def keep_limits(connection: sa.Connection, source_id: int, values: dict[str, Any] | None) -> None:
    """What a source keeps where that is not what all keep; None: it is."""
    table = models.retention
    connection.execute(sa.delete(table).where(table.c.source_id == source_id))
    if values is not None:
        connection.execute(sa.insert(table).values(summed(table, {"source_id": source_id, **values})))


def _last_before(connection: sa.Connection, edge: Edge) -> int | None:
    """The last stored event before the edge."""
    chunk = models.chunk
    query = sa.select(sa.func.max(chunk.c.seq1)).where(*_before(chunk, chunk.c.wire_seq1, edge), chunk.c.num_events > 0)
    last: int | None = connection.execute(query).scalar()
    return last


def _delete_before(connection: sa.Connection, table: sa.Table, wire_seq: sa.Column[Any], edge: Edge) -> None:
    connection.execute(sa.delete(table).where(*_before(table, wire_seq, edge)))


def _before(table: sa.Table, wire_seq: sa.Column[Any], edge: Edge) -> tuple[sa.ColumnElement[bool], ...]:
    here = of_epoch(table, edge.key)
    return here if edge.wire_seq is None else (*here, wire_seq < edge.wire_seq)


def _slices(items: list[int], size: int) -> Iterable[list[int]]:
    return (items[at : at + size] for at in range(0, len(items), size))
