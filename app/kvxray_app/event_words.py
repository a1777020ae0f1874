"""What an event says beyond its kind, in a few words.

`components/event_words.js` says it alike (a browser test compares). Meanings of value, a0 and a1 follow the table of
event kinds in the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvxray_app.formats import count

Event = Mapping[str, Any]


def _plural(number: int, one: str) -> str:
    return f"{count(number)} {one if number == 1 else f'{one}s'}"


def _references(event: Event) -> str:
    return f"ref count {event['value']}"


def _to_compute(event: Event) -> str:
    return f"{_plural(event['a0'], 'token')} to compute again"


def _preempted(event: Event) -> str:
    taker = event.get("taker_id")
    return _to_compute(event) + (f", blocks to {taker}" if taker else "")


def _lengths(event: Event) -> str:
    return f"{count(event['a0'])} prompt, {count(event['a1'])} output tokens"


def _hash_words(event: Event) -> str:
    """Where it is, and what it goes on from; of an event that does not tell, nothing."""
    parent, medium, group = (event.get(name) for name in ("parent", "medium", "group"))
    told = (
        f"after {parent[:8]}…{parent[-4:]}" if parent else "",
        medium or "",
        "" if group is None else f"group {group}",
    )
    return " · ".join(part for part in told if part)


_WORDS: dict[str, Callable[[Event], str]] = {
    "BlockReferenced": _references,
    "BlockDereferenced": _references,
    "BlockFilled": lambda event: f"{_plural(event['value'], 'slot')} written",
    "BlockFreed": lambda event: f"to the {'front' if event['a0'] == 0 else 'tail'} of the free queue",
    "RequestArrived": lambda event: _plural(event["a1"], "prompt token"),
    "RequestScheduled": lambda event: f"{count(event['a1'])} of {_plural(event['a0'], 'token')} from the prefix cache",
    "TokensGenerated": lambda event: f"{count(event['a1'])} in all",
    "RequestPreempted": _preempted,
    "RequestResumed": _to_compute,
    "RequestFinished": _lengths,
    "RequestAborted": _lengths,
    "RequestFailed": _lengths,
    "ResidencyStored": _hash_words,
    "ResidencyRemoved": _hash_words,
    "StepCompleted": lambda event: f"{_plural(event['a1'], 'token')} computed",
}

KINDS: tuple[str, ...] = (
    "StepStarted", "StepCompleted",
    "BlockAllocated", "BlockReferenced", "BlockDereferenced", "BlockFreed", "BlockCached", "BlockEvicted",
    "BlockFilled", "BlockCopied", "BlockMoved", "CacheCleared", "ResidencyStored", "ResidencyRemoved",
    "RequestArrived", "RequestScheduled", "TokensGenerated", "RequestPreempted", "RequestResumed",
    "RequestFinished", "RequestAborted", "RequestFailed", "LeaseChanged",
)  # fmt: skip
"""Every kind of event, in the order of the schema (`kvxray_engine.stream.schema.Kind`)."""


KINDS_OF_HASHES: tuple[str, ...] = ("ResidencyStored", "ResidencyRemoved", "CacheCleared", "StepStarted")
"""Those that an engine which tells of hashes has."""


def event_words(event: Event) -> str:
    """A few words, or "" when the kind says it all. `event` as `/api/events` gives it."""
    cause = event["cause"] if event["cause"] != "none" else ""
    words = _WORDS[event["kind"]](event) if event["kind"] in _WORDS else ""
    return " · ".join(part for part in (cause, words) if part)
