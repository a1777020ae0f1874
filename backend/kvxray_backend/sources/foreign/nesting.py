"""How deep a payload nests, where that could hurt: the decoder walks it by recursion, on the thread's own stack.

It stops by itself at the interpreter's recursion limit, which costs nothing and is safe at its usual 1,000. Libraries
raise that limit, for the whole process, to where the stack ends first and the process with it. Then, and only then, the
depth is counted here beforehand.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from kvxray_backend.sources.foreign.caps import BadEvent

MAX_DEPTH: Final = 256
"""Batch, events, event, keys, key: what engines send nests five deep, Dynamo's lines seven."""
SAFE_LIMIT: Final = 5_000

# Bytes that follow the first one, by the first one: of a fixed size, or of one that is told.
_FIXED: Final = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
                 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}  # fmt: skip
_SIZED: Final = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
                 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}  # fmt: skip
_CONTAINERS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def check_msgpack(payload: bytes) -> None:
    """Raises `BadEvent` for a payload that nests too deep to be decoded."""
    if sys.getrecursionlimit() > SAFE_LIMIT and msgpack_depth(payload) > MAX_DEPTH:
        raise BadEvent("It nests too deep.")


def check_json(payload: bytes) -> None:
    """Raises `BadEvent` for a payload that nests too deep to be decoded."""
    if sys.getrecursionlimit() > SAFE_LIMIT and json_depth(payload) > MAX_DEPTH:
        raise BadEvent("It nests too deep.")


def msgpack_depth(payload: bytes) -> int:
    """Lists and maps within each other, at most `MAX_DEPTH` + 1; of a payload cut short, those that begin."""
    deepest, at = 0, 0
    missing = [1]
    while missing and at < len(payload) and deepest <= MAX_DEPTH:
        missing[-1] -= 1
        size, skipped = _item(payload, at)
        at += skipped
        if size is not None:
            deepest = max(deepest, len(missing))
            missing.append(size)
        while missing and not missing[-1]:
            missing.pop()
    return deepest


def json_depth(payload: bytes) -> int:
    """Brackets within each other, at most `MAX_DEPTH` + 1, those in strings aside."""
    deepest = depth = 0
    for found in _BRACKETS.finditer(payload):
        depth += (found.lastindex == 1) - (found.lastindex == 2)
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _item(payload: bytes, at: int) -> tuple[int | None, int]:
    """How many items are inside the one that begins here (None: it is no list or map), and how many bytes it takes
    by itself.
    """
    first = payload[at]
    if first < 0x80 or first >= 0xE0:
        return None, 1
    if first < 0xA0:
        return (first & 0x0F) * (2 if first < 0x90 else 1), 1
    if first < 0xC0:
        return None, 1 + (first & 0x1F)
    if first in _CONTAINERS:
        width, each = _CONTAINERS[first]
        return int.from_bytes(payload[at + 1 : at + 1 + width], "big") * each, 1 + width
    if first in _SIZED:
        width, more = _SIZED[first]
        return None, 1 + width + more + int.from_bytes(payload[at + 1 : at + 1 + width], "big")
    return None, 1 + _FIXED.get(first, 0)
