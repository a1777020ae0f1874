"""Writes stretches of history as one Parquet file for analysts: a row an event, readable without kvxray."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.schema import Cause

from kvxray_storage import models
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.exchange.event_table import KIND_NAMES, NONE, EventTable
from kvxray_storage.exchange.stretch import Exported, NothingThere, Stretch

ROWS_AT_ONCE: Final = 65_536
_CAUSE_NAMES: Final = {int(cause): cause.name for cause in Cause}


def export_parquet(database: Database, stretches: Sequence[Stretch], path: Path) -> Exported:
    """Raises NothingThere, OSError, ModuleNotFoundError without pyarrow, and DamagedChunk."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    part = path.with_name(f".{path.name}.part")
    counts = [0] * len(stretches)
    try:
        with parquet.ParquetWriter(part, _schema(arrow), compression="zstd") as file:
            for at, stretch in enumerate(stretches):
                for tables in _groups(_tables(arrow, database, stretch)):
                    table = arrow.concat_tables(tables)
                    counts[at] += len(table)
                    file.write_table(table)
        if not any(counts):
            raise NothingThere
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Exported(sum(counts), sum(map(bool, counts)))


def _schema(arrow: Any) -> Any:
    name = arrow.dictionary(arrow.int16(), arrow.string())
    return arrow.schema(
        [
            ("source", arrow.dictionary(arrow.int32(), arrow.string())), ("epoch", arrow.int32()),
            ("seq", arrow.int64()), ("time", arrow.timestamp("ns", tz="UTC")), ("step", arrow.int64()),
            ("kind", name), ("cause", name), ("request", arrow.int64()), ("request_id", arrow.string()),
            ("block_id", arrow.int64()), ("value", arrow.int64()), ("hash", arrow.binary()),
            ("a0", arrow.int64()), ("a1", arrow.int64()),
        ]
    )  # fmt: skip


def _groups(tables: Iterator[Any]) -> Iterator[list[Any]]:
    """So many that they make a group of rows worth its own statistics."""
    group: list[Any] = []
    for table in tables:
        group.append(table)
        if sum(map(len, group)) >= ROWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _tables(arrow: Any, database: Database, stretch: Stretch) -> Iterator[Any]:
    chunk, key = models.chunk, stretch.epoch.key
    query = sa.select(chunk.c.data).where(
        *of_epoch(chunk, key), chunk.c.seq1 >= stretch.first, chunk.c.seq0 <= stretch.last, chunk.c.num_events > 0
    )
    ordered = query.order_by(chunk.c.seq1).execution_options(stream_results=True, yield_per=4)
    with database.reading() as connection, connection.execute(ordered) as result:
        for row in result:
            decoded = decode_chunk(row.data)
            events = EventTable(decoded)
            inside = np.flatnonzero((events.seq >= stretch.first) & (events.seq <= stretch.last))
            message = decoded.message
            hashes = (message.header.hash0, message.header.hash_width, memoryview(message.columns.hashes))
            if len(inside):
                yield _table(arrow, connection, stretch, events, inside, hashes)


def _table(
    arrow: Any,
    connection: sa.Connection,
    stretch: Stretch,
    events: EventTable,
    inside: np.ndarray[Any, np.dtype[np.int64]],
    hashes: tuple[int, int, memoryview],
) -> Any:
    request, block = events.request[inside], events.block_id[inside]
    names = _names(connection, stretch, np.unique(request).tolist())
    count = len(inside)
    columns = {
        "source": [stretch.source] * count,
        "epoch": np.full(count, stretch.epoch.epoch, np.int32),
        "seq": events.seq[inside],
        "time": events.t_ns[inside],
        "step": events.step[inside],
        "kind": [KIND_NAMES[kind] for kind in events.kind[inside].tolist()],
        "cause": [_CAUSE_NAMES[cause] for cause in events.cause[inside].tolist()],
        "request": _masked(request, request != NONE),
        "request_id": [names.get(ordinal) for ordinal in request.tolist()],
        "block_id": _masked(block, block != NONE),
        "value": _masked(events.value[inside], events.has_value[inside]),
        "hash": [_hash(ordinal, *hashes) for ordinal in events.hash_ordinal[inside].tolist()],
        "a0": events.a0[inside].astype(np.int64),
        "a1": events.a1[inside].astype(np.int64),
    }
    schema = _schema(arrow)
    arrays = [arrow.array(columns[field.name], type=field.type) for field in schema]
    return arrow.table(arrays, schema=schema)


def _masked(values: np.ndarray[Any, Any], is_there: np.ndarray[Any, Any]) -> list[int | None]:
    return [value if there else None for value, there in zip(values.tolist(), is_there.tolist(), strict=True)]


def _hash(ordinal: int, first: int, width: int, data: memoryview) -> bytes | None:
    at = (ordinal - first) * width
    return bytes(data[at : at + width]) if ordinal != NONE and 0 <= at < len(data) else None


def _names(connection: sa.Connection, stretch: Stretch, ordinals: list[int]) -> dict[int, str]:
    name = models.name
    found: dict[int, str] = {}
    for at in range(0, len(ordinals), 500):
        here = (*of_epoch(name, stretch.epoch.key), name.c.ordinal.in_(ordinals[at : at + 500]))
        found |= {row.ordinal: row.id for row in connection.execute(sa.select(name.c.ordinal, name.c.id).where(*here))}
    return found
