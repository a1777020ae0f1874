"""A sum over a row, for rows that follow from nothing else that is stored: by it a flipped byte in them is found.

Whoever writes such a row writes its sum with it; rows of an older kvxray have none. What a row says that changes later
(an end, a count) is not in it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from kvxray_storage.rollup_columns import VALUE_COLUMNS

_ROLLUP: Final = ("source_id", "t_s", "epoch", *VALUE_COLUMNS)
SUMMED: Final[dict[str, tuple[str, ...]]] = {
    "setting": ("name", "value"),
    "source": ("source_id", "name", "labels"),
    "epoch": ("source_id", "epoch", "incarnation", "first_descriptor", "started_ns"),
    "name": ("source_id", "epoch", "ordinal", "id", "detail"),
    "gap": ("source_id", "epoch", "wire_seq0", "wire_seq1", "seq0", "seq1", "at_ns", "reason"),
    "finding": (
        "id", "source", "epoch", "seq0", "seq1", "kind", "severity", "at_ns", "state", "ended_ns", "subjects",
        "numbers", "certainty", "sentence",
    ),
    "rollup_1s": _ROLLUP,
    "rollup_1m": _ROLLUP,
    "bookmark": ("id", "source", "epoch", "seq", "at_ns", "note", "created_ns"),
    "signal_minute": ("source", "t_s", "packed"),
    "attached_engine": ("name", "spec", "created_ns"),
    "alert": (
        "id", "rule", "engine", "severity", "state", "began_ns", "fired_ns", "ended_ns", "evidence",
    ),
    "notification": (
        "id", "target", "alert_id", "kind", "created_ns", "due_ns", "attempts", "delivered_ns", "error",
        "delivery",
    ),
    "mute": ("id", "rule", "engine", "until_ns", "note", "created_ns"),
    "alert_rule": ("name", "is_on", "text", "changed_ns"),
    "retention": ("source_id", "max_age_s", "max_bytes", "changed_ns"),
}  # fmt: skip
"""By table: the columns that `crc` is the sum of, in this order. Never change it: what is stored has it."""

DESCRIPTOR: Final = ("source_id", "epoch", "descriptor")
"""What `descriptor_crc` of an epoch is the sum of: the one text of it that changes."""

_ENCODER: Final = msgspec.msgpack.Encoder()


def sum_of(values: Iterable[Any]) -> int:
    """CRC-32 of the values as msgpack; integers, text, bytes and None."""
    return zlib.crc32(_ENCODER.encode(tuple(values)))


def row_sum(table: sa.Table, row: Mapping[str, Any]) -> int:
    """Of a row of the table; a column that is not told is NULL."""
    return sum_of(row.get(name) for name in SUMMED[table.name])


def summed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, with its sum."""
    return {**row, "crc": row_sum(table, row)}
