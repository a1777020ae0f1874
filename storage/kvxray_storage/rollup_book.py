"""The seconds and minutes that are still being added to. Pure: counts come in, rows and bytes go out.

A row is absolute: storing it again replaces it, so that a commit can be repeated and a fold done over. The book keeps
what was touched lately; its bytes stand in every keyframe, so that a fold that begins there goes on counting exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from kvxray_storage.histograms import NUM_BUCKETS, decode_histogram, encode_histogram
from kvxray_storage.rollup_columns import COUNTERS, GAUGE_COLUMNS, GAUGES, HISTOGRAMS, MAXIMA

I8 = NDArray[np.int64]

NS: Final = 1_000_000_000

SPANS: Final = (1, 60)
"""Seconds a row covers: one table each."""

KEPT_S: Final = 8
"""Events of one chunk are not quite in order of time, as a step's results count from its end."""

NOT_KNOWN: Final = -1
_MAX_BLOB: Final = 1 << 22


class TimeWentBack(Exception):
    """An event belongs to a row that the book no longer has."""


class RollupRow:
    """One second or minute. `gauges`: three lines, the last reading, the lowest and the highest; NOT_KNOWN: none."""

    __slots__ = ("counters", "gauges", "histograms", "maxima", "usable_blocks")

    def __init__(self) -> None:
        self.counters: I8 = np.zeros(len(COUNTERS), np.int64)
        self.maxima: I8 = np.zeros(len(MAXIMA), np.int64)
        self.histograms: I8 = np.zeros((len(HISTOGRAMS), NUM_BUCKETS), np.int64)
        self.gauges: I8 = np.full((3, len(GAUGES)), NOT_KNOWN, np.int64)
        self.usable_blocks = NOT_KNOWN

    def read(self, gauges: I8, usable_blocks: int) -> None:
        """One reading of every gauge."""
        _, lowest, highest = self.gauges
        self.gauges[0] = gauges
        lower = (gauges != NOT_KNOWN) & ((lowest == NOT_KNOWN) | (gauges < lowest))
        lowest[lower] = gauges[lower]
        np.maximum(highest, gauges, out=highest)
        self.usable_blocks = usable_blocks

    def values(self) -> dict[str, Any]:
        """By column, as the tables have them."""
        readings = self.gauges.T.reshape(-1).tolist()
        return {
            **dict(zip(COUNTERS, self.counters.tolist(), strict=True)),
            **dict(zip(MAXIMA, self.maxima.tolist(), strict=True)),
            **{name: encode_histogram(counts) for name, counts in zip(HISTOGRAMS, self.histograms, strict=True)},
            "usable_blocks": _nullable(self.usable_blocks),
            **dict(zip(GAUGE_COLUMNS, map(_nullable, readings), strict=True)),
        }

    @staticmethod
    def from_values(values: dict[str, Any]) -> RollupRow:
        row = RollupRow()
        row.counters[:] = [values[name] for name in COUNTERS]
        row.maxima[:] = [values[name] for name in MAXIMA]
        row.histograms[:] = [decode_histogram(bytes(values[name])) for name in HISTOGRAMS]
        readings = [NOT_KNOWN if values[name] is None else values[name] for name in GAUGE_COLUMNS]
        row.gauges[:] = np.array(readings, np.int64).reshape(-1, 3).T
        row.usable_blocks = NOT_KNOWN if values["usable_blocks"] is None else values["usable_blocks"]
        return row


def _nullable(value: int) -> int | None:
    return None if value == NOT_KNOWN else value


ReadRow = Callable[[int, int], RollupRow | None]
"""(span, its first second) -> the row as it is stored, None when there is none. May raise TimeWentBack."""


class RollupBook:
    """Rows by (span, first second). `since_ns`: before this, what the fold knows of requests may have holes."""

    def __init__(self, read_row: ReadRow) -> None:
        self.read_row = read_row
        self.since_ns = 0
        self._rows: dict[tuple[int, int], RollupRow] = {}
        self._touched: set[tuple[int, int]] = set()

    def rows_of(self, second: int) -> list[RollupRow]:
        """The rows that an event of this second counts in."""
        return [self._row(span, second // span * span) for span in SPANS]

    def take_touched(self) -> Iterator[tuple[int, int, RollupRow]]:
        """(span, first second, row) of all that was changed since the last time; call `tidy` when they are stored."""
        touched, self._touched = self._touched, set()
        return ((*key, self._rows[key]) for key in sorted(touched))

    def touch_all(self) -> None:
        """All of it is to be stored again."""
        self._touched = set(self._rows)

    def tidy(self) -> None:
        """Forgets what is stored and was not touched lately."""
        kept = self._kept_from()
        self._rows = {
            (span, start): row
            for (span, start), row in self._rows.items()
            if start >= kept[span] or (span, start) in self._touched
        }

    def encode(self) -> bytes:
        """The rows that `tidy` keeps: the same at the same event, whenever commits were."""
        kept = self._kept_from()
        rows = [_Packed.of(*key, row) for key, row in sorted(self._rows.items()) if key[1] >= kept[key[0]]]
        packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
        return packer.compress(msgspec.msgpack.encode(_Open(self.since_ns, rows)))

    def decode(self, data: bytes) -> None:
        """Goes on where `encode` was called. Raises ValueError for anything else."""
        try:
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_BLOB)
            found = _OPEN.decode(raw)
            self._rows = {(packed.span, packed.start): packed.row() for packed in found.rows}
        except (zstandard.ZstdError, msgspec.MsgspecError, ValueError, OverflowError) as error:
            raise ValueError(f"the open rollups of a keyframe cannot be read: {error}") from error
        self.since_ns = found.since_ns
        self._touched = set()

    def check_integrity(self) -> None:
        assert self._touched <= self._rows.keys(), "a row was touched but is not there"
        for (span, start), row in self._rows.items():
            assert start % span == 0, "a row begins off its grid"
            assert (row.counters >= 0).all(), "a count is negative"
            known = (row.gauges != NOT_KNOWN).all(axis=0)
            last, lowest, highest = row.gauges[:, known]
            assert ((lowest <= last) & (last <= highest)).all(), "a gauge's last reading lies outside its range"

    def _kept_from(self) -> dict[int, int]:
        """By span the first second from which on the book has every row that there is."""
        newest = {span: max((start for of, start in self._rows if of == span), default=None) for span in SPANS}
        return {span: -(2**62) if at is None else at - max(KEPT_S, span) for span, at in newest.items()}

    def _row(self, span: int, start: int) -> RollupRow:
        key = span, start
        row = self._rows.get(key)
        if row is None:
            stored = self.read_row(span, start) if start < self._kept_from()[span] else None
            row = self._rows[key] = RollupRow() if stored is None else stored
        self._touched.add(key)
        return row


class _Packed(msgspec.Struct, array_like=True):
    """One row in a book's bytes."""

    span: int
    start: int
    counters: list[int]
    maxima: list[int]
    histograms: list[bytes]
    gauges: list[int]
    usable_blocks: int

    @staticmethod
    def of(span: int, start: int, row: RollupRow) -> _Packed:
        histograms = [encode_histogram(counts) for counts in row.histograms]
        gauges = row.gauges.reshape(-1).tolist()
        return _Packed(span, start, row.counters.tolist(), row.maxima.tolist(), histograms, gauges, row.usable_blocks)

    def row(self) -> RollupRow:
        made = RollupRow()
        made.counters[:], made.maxima[:] = self.counters, self.maxima
        made.histograms[:] = [decode_histogram(data) for data in self.histograms]
        made.gauges[:] = np.array(self.gauges, np.int64).reshape(3, -1)
        made.usable_blocks = self.usable_blocks
        return made


class _Open(msgspec.Struct, array_like=True):
    """A book's bytes."""

    since_ns: int
    rows: list[_Packed]


_OPEN: Final = msgspec.msgpack.Decoder(_Open)
