"""What an import writes of an epoch beside what the event log makes of its events, and how it takes that away again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from kvxray_storage import models, pruning
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.exchange.imported_rows import remove_rows
from kvxray_storage.exchange.records import Rollups
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.records import EpochKey
from kvxray_storage.rollup_columns import VALUE_COLUMNS
from kvxray_storage.row_sums import summed
from kvxray_storage.upserts import upsert


def add_epoch(
    connection: sa.Connection, name: str, labels: Mapping[str, str], row: dict[str, Any], now_ns: int
) -> None:
    """A source that is new keeps what it has until somebody decides: it is here because it is wanted."""
    source = models.source
    source_id = connection.execute(sa.select(source.c.source_id).where(source.c.name == name)).scalar()
    if source_id is None:
        source_id = (connection.execute(sa.select(sa.func.max(source.c.source_id))).scalar() or 0) + 1
        text = msgspec.json.encode(dict(labels), order="sorted").decode()
        values = {"source_id": source_id, "name": name, "labels": text, "created_ns": now_ns}
        connection.execute(sa.insert(source).values(summed(source, values)))
        pruning.keep_limits(connection, source_id, {"changed_ns": now_ns})
    connection.execute(sa.insert(models.epoch).values(summed(models.epoch, {"source_id": source_id, **row})))


def add_rollups(connection: sa.Connection, key: EpochKey, rollups: Rollups) -> None:
    """As they were counted where the file comes from: gauges are read at the ends of chunks, which differ here."""
    here = {"source_id": key.source_id, "epoch": key.epoch}
    table = TABLES[rollups.span]
    told = ({**here, "t_s": t_s, **dict(zip(VALUE_COLUMNS, values, strict=True))} for t_s, values in rollups.rows)
    rows = [summed(table, row) for row in told]
    upsert(connection, table, rows, ["source_id", "t_s", "epoch"])


def finish(connection: sa.Connection, ends: Mapping[EpochKey, int]) -> None:
    """All of the file is here."""
    epoch = models.epoch
    for key, ended_ns in ends.items():
        query = sa.update(epoch).where(*of_epoch(epoch, key))
        connection.execute(query.values(ended_ns=ended_ns, importing_ns=None))


def remove_epochs(connection: sa.Connection, keys: list[EpochKey]) -> None:
    """With all that is of them but findings and bookmarks."""
    for key in keys:
        connection.execute(sa.delete(models.epoch).where(*of_epoch(models.epoch, key)))


def remove(connection: sa.Connection, keys: list[EpochKey], row_ids: list[str]) -> None:
    """And sources that had no other."""
    epoch, source = models.epoch, models.source
    remove_epochs(connection, keys)
    remove_rows(connection, row_ids)
    empty = ~sa.exists().where(epoch.c.source_id == source.c.source_id)
    connection.execute(sa.delete(source).where(source.c.source_id.in_({key.source_id for key in keys}), empty))
