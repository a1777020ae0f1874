"""What becomes of a rule's verdicts over time: inactive, pending, firing, and firing on for a while. Pure.

No data is no verdict: what is pending does not come nearer to firing, and what fires goes on, said to be unknown, until
somebody knows that it is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from kvxray_backend.alerts.rule import Rule

State = Literal["inactive", "pending", "firing", "keep_firing"]
MAX_STEP_S: Final = 150.0
"""Between two looks that lie further apart nobody knows whether it held: pending gains no more than this by it."""
PENDING_WITHOUT_DATA_S: Final = 300.0
"""What nobody can tell for that long is not pending any more: nothing was said of it yet."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """Times in Unix seconds. since_s: of the state. held_s: seconds for which it is known to have held while pending.
    held_at_s: when it last held. unknown_since_s: since when nobody can tell; None: it can be told.
    """

    state: State = "inactive"
    since_s: float = 0.0
    at_s: float = 0.0
    held_s: float = 0.0
    held_at_s: float | None = None
    unknown_since_s: float | None = None

    @property
    def is_firing(self) -> bool:
        """Whether people are to know of it."""
        return self.state in ("firing", "keep_firing")


def advance(rule: Rule, before: AlertState, holds: bool | None, at_s: float) -> AlertState:
    """at_s: of this look; before the last one (a clock that was set back) it is taken as of the same time."""
    at_s = max(at_s, before.at_s)
    if holds is None:
        return _unknown(before, at_s)
    known = replace(before, at_s=at_s, unknown_since_s=None)
    return _held(rule, known, before, at_s) if holds else _held_not(rule, known, at_s)


def _held(rule: Rule, known: AlertState, before: AlertState, at_s: float) -> AlertState:
    known = replace(known, held_at_s=at_s)
    if before.state == "firing":
        return known
    if before.state == "keep_firing":
        return replace(known, state="firing", since_s=at_s)
    is_new = before.state == "inactive"
    # What lies between two looks counts only where both saw it hold.
    step_s = 0.0 if is_new or before.unknown_since_s is not None else min(at_s - before.at_s, MAX_STEP_S)
    held_s = 0.0 if is_new else before.held_s + step_s
    if held_s >= rule.for_s:
        return replace(known, state="firing", since_s=at_s, held_s=0.0)
    return replace(known, state="pending", since_s=at_s if is_new else before.since_s, held_s=held_s)


def _held_not(rule: Rule, known: AlertState, at_s: float) -> AlertState:
    held_at_s = known.held_at_s if known.held_at_s is not None else at_s
    if known.is_firing and at_s - held_at_s < rule.keep_firing_s:
        return known if known.state == "keep_firing" else replace(known, state="keep_firing", since_s=at_s)
    if known.state == "inactive":
        return known
    return replace(known, state="inactive", since_s=at_s, held_s=0.0, held_at_s=None)


def _unknown(before: AlertState, at_s: float) -> AlertState:
    since_s = before.unknown_since_s if before.unknown_since_s is not None else at_s
    after = replace(before, at_s=at_s, unknown_since_s=since_s)
    if before.state == "pending" and at_s - since_s >= PENDING_WITHOUT_DATA_S:
        return replace(after, state="inactive", since_s=at_s, held_s=0.0, held_at_s=None)
    return after
