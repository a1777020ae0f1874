"""How cases write a hash (a number, or `bytes:` and digits) and how findings do (digits), as one text."""

from __future__ import annotations

from typing import Any

from tests.engine.verdict import BadInput

_BYTES = "bytes:"


def to_wire(told: Any) -> Any:
    """What msgpack is given: a number as it is, else bytes."""
    return from_digits(told) if isinstance(told, str) and told.startswith(_BYTES) else told


def from_digits(told: str) -> bytes:
    try:
        return bytes.fromhex(told.removeprefix(_BYTES))
    except ValueError as error:
        raise BadInput(f"{told[:80]!r} is no hash.") from error


def spelled(told: Any) -> str:
    """One spelling of a hash of a case: two's complement numbers are unsigned ones."""
    text = str(told)
    if text.startswith(_BYTES):
        return of_bytes(from_digits(text))
    return str(int(text) & (2**64 - 1)) if text.lstrip("-").isdecimal() else text


def of_bytes(data: bytes) -> str:
    return str(int.from_bytes(data, "big")) if len(data) == 8 else f"{_BYTES}{data.hex()}"


def of_hex(digits: str) -> str:
    return of_bytes(bytes.fromhex(digits))
