"""A real `.kvx` file, spoiled: sums that are right over sections that are not what kvxray would write. Seeded."""

from __future__ import annotations

import random

import msgspec
import zstandard

from tests.storage.kvx_files import changed_columns, changed_messages, repacked_head

NUMBERS = (-1, 0, 1, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**61, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = (
    "",
    "\0",
    "\x1b[2J",
    "../../x",
    "a" * 600,
    "b" * 70_000,
    "\u202e",
    "[" * 5_000,
    "{}",
    "null",
    "1e999",
    "é" * 300,
)
CLAIMS = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
"""A zstd frame that claims a terabyte."""


def mutate(sections, choose: random.Random):
    """Sections, each `(number, msgpack bytes)`, with one to three things in them changed."""
    changed = list(sections)
    for _ in range(choose.randint(1, 3)):
        choose.choice(_WAYS)(changed, choose)
    return changed


def _bytes(sections, choose):
    at = choose.randrange(len(sections))
    data = bytearray(sections[at][1])
    for _ in range(choose.randint(1, 4)):
        data[choose.randrange(len(data))] = choose.randrange(256)
    sections[at] = sections[at][0], bytes(data)


def _order(sections, choose):
    first, second = choose.randrange(len(sections)), choose.randrange(len(sections))
    what = choose.randrange(4)
    if what == 0 and len(sections) > 1:
        del sections[first]
    elif what == 1:
        sections.insert(second, sections[first])
    elif what == 2:
        sections[first], sections[second] = sections[second], sections[first]
    else:
        sections[first] = choose.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 255]), sections[first][1]


def _value(sections, choose):
    """A number, a text, bytes or a list somewhere in what a section says."""
    at = choose.randrange(len(sections))
    number, data = sections[at]
    try:
        value = msgspec.msgpack.decode(data, strict=False)
    except msgspec.MsgspecError:
        return
    sections[at] = number, msgspec.msgpack.encode(_other(value, choose))


def _other(value, choose):
    if isinstance(value, list) and value and choose.random() < 0.9:
        at = choose.randrange(len(value))
        return [*value[:at], _other(value[at], choose), *value[at + 1 :]]
    if isinstance(value, list):
        return choose.choice([[], value * 50, [None] * 20_000, [value]])
    if isinstance(value, dict) and value and choose.random() < 0.5:
        key = choose.choice(list(value))
        return {**value, key: _other(value[key], choose)}
    if isinstance(value, dict):
        return {f"label {at}": "x" * choose.choice([1, 70_000]) for at in range(choose.choice([1, 1_000]))}
    if isinstance(value, bytes):
        return choose.choice([b"", value[:-1], value * 2, CLAIMS, zstandard.compress(bytes(1 << 22))])
    return choose.choice([*NUMBERS, *TEXTS, None])


def _packed(sections, choose):
    """In messages, or in the head or the columns of a state."""
    number, repack = choose.choice([(4, changed_messages), (3, changed_columns), (3, repacked_head)])
    there = [at for at, (kind, _) in enumerate(sections) if kind == number]
    if not there:
        return
    at = choose.choice(there)

    def change(raw):
        for _ in range(choose.randint(1, 3)):
            raw[choose.randrange(len(raw))] = choose.randrange(256)

    try:
        value = msgspec.msgpack.decode(sections[at][1])
        repack(change)(value)
    except Exception:
        return  # spoiled before
    sections[at] = number, msgspec.msgpack.encode(value)


_WAYS = (_bytes, _order, _value, _value, _packed, _packed)
