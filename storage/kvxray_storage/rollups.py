"""Reads of the rollups: what happened in each second or minute of a stretch of time, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.records import EpochKey
from kvxray_storage.rollup_book import NS
from kvxray_storage.rollup_columns import COUNTERS, HISTOGRAMS, MAXIMA, VALUE_COLUMNS

ColumnsByName = dict[str, NDArray[Any]]


def rollups(
    database: Database, key_or_source: EpochKey | str, t0_ns: int, t1_ns: int, seconds: int, names: Iterable[str]
) -> ColumnsByName:
    """Rows of `seconds` (1 or 60) that begin from the one with t0_ns up to the one with t1_ns, the oldest first.

    Besides `names` (`rollup_columns.VALUE_COLUMNS`) the columns have `t_s` and `epoch`; a source has a row for each of
    its epochs. Counts are int64; gauges are float64, NaN where not known; histograms are bytes. A second without events
    has no row: its counts are 0 and its gauges are those before it.
    """
    wanted = list(dict.fromkeys(names))
    assert seconds in TABLES, "rollups are kept by the second and by the minute"
    unknown = [name for name in wanted if name not in VALUE_COLUMNS]
    assert not unknown, f"{unknown[:1]} is no column of a rollup"
    table = TABLES[seconds]
    query = sa.select(table.c.t_s, table.c.epoch, *(table.c[name] for name in wanted))
    first, last = (t_ns // NS // seconds * seconds for t_ns in (t0_ns, t1_ns))
    query = query.where(_of(table, key_or_source), table.c.t_s.between(first, last))
    with database.reading() as connection:
        rows = connection.execute(query.order_by(table.c.t_s, table.c.epoch)).all()
    columns = zip(*rows, strict=True) if rows else [()] * (2 + len(wanted))
    return {name: _array(name, values) for name, values in zip(("t_s", "epoch", *wanted), columns, strict=True)}


def _of(table: sa.Table, key_or_source: EpochKey | str) -> sa.ColumnElement[bool]:
    if isinstance(key_or_source, EpochKey):
        return (table.c.source_id == key_or_source.source_id) & (table.c.epoch == key_or_source.epoch)
    source = models.source
    named = sa.select(source.c.source_id).where(source.c.name == key_or_source).scalar_subquery()
    return table.c.source_id == named


def _array(name: str, values: tuple[Any, ...]) -> NDArray[Any]:
    if name in HISTOGRAMS:
        made = np.empty(len(values), object)
        made[:] = [bytes(value) for value in values]
        return made
    if name in ("t_s", "epoch", *COUNTERS, *MAXIMA):
        return np.array(values, np.int64)
    return np.array([np.nan if value is None else value for value in values], np.float64)
