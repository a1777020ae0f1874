"""The operations of an engine that cases are told in, read and checked: what they are called and what they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.case import NotBuilt
from tests.engine.verdict import BadInput

_TAKES: dict[str, tuple[str, ...]] = {
    "alloc": ("request", "blocks"),
    "cache": ("block", "hash"),
    "fill": ("block", "amount"),
    "deref": ("blocks", "request"),
    "free": ("blocks",),
    "hold": ("blocks", "request"),
    "pin": ("blocks",),
    "step": ("request", "amount"),
    "tick": ("amount",),
    **dict.fromkeys(("preempt", "resume", "abort", "finish", "error", "client_gone"), ("request",)),
}
MAX_BLOCK = 1 << 20


@dataclass(frozen=True)
class Operation:
    """request: also the reason of a hold. amount: slots, tokens or seconds."""

    name: str
    request: str = ""
    blocks: tuple[int, ...] = ()
    hash: str = ""
    amount: float = 0


def read_operation(told: Any) -> Operation:
    """Raises BadInput for what is none, and NotBuilt for one that is not known."""
    if not isinstance(told, list) or not told or not isinstance(told[0], str):
        raise BadInput(f"{str(told)[:80]!r} is no operation of an engine.")
    name, *arguments = told
    if name not in _TAKES:
        raise NotBuilt(f"the operation {name} of an engine")
    if len(arguments) != len(_TAKES[name]):
        raise BadInput(f"{str(told)[:80]!r} is no operation of an engine.")
    fields: dict[str, Any] = {}
    for field, value in zip(_TAKES[name], arguments, strict=True):
        fields |= _field(field, value, told)
    return Operation(name, **fields)


def _field(field: str, value: Any, told: Any) -> dict[str, Any]:
    blocks = value if field == "blocks" else [value]
    if field in ("blocks", "block"):
        if isinstance(blocks, list) and all(type(one) is int and 0 <= one < MAX_BLOCK for one in blocks):
            return {"blocks": tuple(blocks)}
    elif field == "amount":
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return {"amount": value}
    elif isinstance(value, str | int) and not isinstance(value, bool):
        return {field: str(value)}
    raise BadInput(f"{str(told)[:80]!r} is no operation of an engine.")
