"""A stretch of signals as bytes: msgpack, signals by a number made of their name, whole numbers as such.

[version, [[signal, part, kind, numbers ...] ...]]. What a later kvxray calls otherwise, or tells in another way, is
left out when it is read.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from math import inf, isfinite
from typing import Any, Final

import msgspec

from kvxray_backend.metrics.minute import Counted, Key, Spread, Stood, Stretch, Told
from kvxray_backend.metrics.signals import SIGNALS

VERSION: Final = 1
MAX_PARTS: Final = 64
"""Of a signal. Beyond them it is kept as a whole: what splits it comes from outside."""
MAX_PART_CHARS: Final = 100

_NUMBER_OF: Final = {name: zlib.crc32(name.encode()) for name in SIGNALS}
_NAME_OF: Final = {number: name for name, number in _NUMBER_OF.items()}
assert len(_NAME_OF) == len(_NUMBER_OF), "two signals have the same number"
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[list[Any]]])
_GAUGE, _COUNTER, _HISTOGRAM = range(3)


def pack(stretch: Stretch) -> bytes:
    return _ENCODER.encode([VERSION, [_row(key, told) for key, told in _bounded(stretch)]])


def unpack(packed: bytes, only: Collection[str] | None = None) -> Stretch:
    """Empty for what cannot be read: a later kvxray wrote it, or it is damaged. only: of these signals; None: all."""
    try:
        version, rows = _DECODER.decode(packed)
    except msgspec.MsgspecError:
        return Stretch()
    if version != VERSION:
        return Stretch()
    wanted = _NAME_OF.keys() if only is None else {_NUMBER_OF[name] for name in only}
    found = (_read(row) for row in rows if row and row[0] in wanted)
    return Stretch(dict(one for one in found if one is not None))


def _bounded(stretch: Stretch) -> Iterator[tuple[Key, Told]]:
    num_parts = Counter(signal for signal, _ in stretch.told)
    for key, told in stretch.told.items():
        if num_parts[key[0]] <= MAX_PARTS and len(key[1]) <= MAX_PART_CHARS:
            yield key, told
    for signal, num in num_parts.items():
        whole = stretch.whole(signal) if num > MAX_PARTS else None
        if whole is not None:
            yield (signal, ""), whole


def _row(key: Key, told: Told) -> list[Any]:
    head = [_NUMBER_OF[key[0]], key[1]]
    if isinstance(told, Stood):
        return [*head, _GAUGE, *map(_plain, (told.total, told.lowest, told.highest)), told.num]
    if isinstance(told, Counted):
        return [*head, _COUNTER, _plain(told.amount), _plain(told.seconds)]
    buckets = [_plain(number) for (lower, upper), num in told.num_by_bucket.items() for number in (lower, upper, num)]
    return [*head, _HISTOGRAM, _plain(told.seconds), _plain(told.total), buckets]


def _plain(number: float) -> float | int:
    """Whole numbers take fewer bytes as such."""
    return int(number) if isfinite(number) and number == int(number) and abs(number) < 2**53 else number


def _read(row: list[Any]) -> tuple[Key, Told] | None:
    try:
        name, part, kind = _NAME_OF.get(row[0]), row[1], row[2]
        told = _MADE[kind](row[3:])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return ((name, part), told) if name is not None and isinstance(part, str) else None


def _stood(row: list[Any]) -> Stood:
    total, lowest, highest, num = row
    if not num >= 1:
        raise ValueError("a gauge that nobody read")
    return Stood(float(total), float(lowest), float(highest), int(num))


def _counted(row: list[Any]) -> Counted:
    amount, seconds = row
    return Counted(float(amount), float(seconds))


def _spread(row: list[Any]) -> Spread:
    seconds, total, flat = row
    numbers = [float(number) for number in flat]
    buckets = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return Spread(float(seconds), float(total), {(lower, upper): num for lower, upper, num in buckets if lower < inf})


_MADE: Final[dict[int, Callable[[list[Any]], Told]]] = {_GAUGE: _stood, _COUNTER: _counted, _HISTOGRAM: _spread}
