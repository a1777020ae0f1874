"""Whether a cache is healthy and, if not, whether it is KV, compute, queue or transfer: one sentence with its evidence.
Pure: figures and findings of one moment go in, a verdict comes out.

A verdict is only given where all that it rests on is known; else it says that it cannot tell, and why. What could not
be looked at, for want of history or because the source does not tell, is listed beside it. The rules, each with its
reason and where that comes from, are in `verdict_rules.py`.
"""

from __future__ import annotations

from typing import Final

from kvxray_backend.analysis.verdict_of_others import (
    NEEDS_OF_OTHERS,
    OF_OTHERS,
    WELL_OF_OTHERS,
    blind_of_others,
    deaf_to_others,
    spoiled_of_others,
)
from kvxray_backend.analysis.verdict_rules import NEEDS, RULES
from kvxray_backend.analysis.verdict_signs import Signs, Status, Trouble, Verdict, counted, percent

RANK: Final[dict[Status, int]] = {"critical": 0, "cannot_tell": 1, "warning": 2, "healthy": 3}
"""The worst first. An engine of which nothing can be told is looked at before one that is merely slow."""


def judge(signs: Signs) -> Verdict:
    """The verdict on one source."""
    reason = _deaf(signs)
    if reason:
        return cannot_tell(reason)
    rules = (*RULES, *OF_OTHERS) if signs.is_of_others else RULES
    found = sorted(filter(None, (rule(signs) for rule in rules)), key=lambda trouble: RANK[trouble.status])
    if found:
        return _verdict_of(found, signs)
    reason = blind_of_others(signs) if signs.is_of_others else _blind(signs)
    if reason:
        return cannot_tell(reason, _not_judged(signs))
    evidence = WELL_OF_OTHERS if signs.is_of_others else _WELL
    return Verdict("healthy", None, "healthy", _all_well(signs), evidence=evidence, not_judged=_not_judged(signs))


def cannot_tell(reason: str, not_judged: tuple[str, ...] = ()) -> Verdict:
    """Abstention. reason: the rest of a sentence that begins with "because"."""
    return Verdict("cannot_tell", None, "cannot_tell", f"Cannot tell, because {reason}.", not_judged=not_judged)


_WELL: Final = ("used", "hit_rate", "running", "waiting", "leaked")


def _verdict_of(found: list[Trouble], signs: Signs) -> Verdict:
    worst, *others = found
    return Verdict(
        worst.status,
        worst.cause,
        worst.rule,
        worst.sentence,
        worst.advice,
        worst.evidence,
        tuple(trouble.sentence for trouble in others),
        _not_judged(signs),
    )


def _deaf(signs: Signs) -> str:
    """Why nothing at all can be said of now."""
    if signs.absence:
        return signs.absence[:1].lower() + signs.absence[1:].rstrip(".")
    if signs.is_of_others:
        return deaf_to_others(signs)
    if signs.has_finding("stale") or signs.connection == "stale":
        return "nothing is heard from the engine any more; what is shown is its last known state"
    if signs.connection == "waiting":
        return "nothing has been heard from the engine yet"
    if signs.connection == "joining":
        return "the engine is heard, but its state has not come yet"
    if signs.has_finding("audit"):
        return "the engine's own counts and its events contradict each other"
    return ""


def _blind(signs: Signs) -> str:
    """Why nothing found wrong does not mean that all is well."""
    if signs.value("used") is None:
        unknown = signs.value("unknown")
        return f"{counted(unknown, 'block')} cannot be told apart" if unknown else "the state of the pool is not known"
    if signs.value("leaked") is None:
        return "it is not known who holds which blocks"
    if signs.value("running") is None or signs.value("waiting") is None:
        return "it is not known which requests run and which wait"
    return ""


def _not_judged(signs: Signs) -> tuple[str, ...]:
    is_idle = signs.value("running") == signs.value("waiting") == 0
    told = NEEDS_OF_OTHERS if signs.is_of_others else NEEDS
    needs = [need for need in told if not (is_idle and need.is_of_work)]
    missing = [need.not_judged for need in needs if any(signs.value(name) is None for name in need.figures)]
    return (*missing, *spoiled_of_others(signs)) if signs.is_of_others else tuple(missing)


def _all_well(signs: Signs) -> str:
    running, waiting, used = (signs.known(name) for name in ("running", "waiting", "used"))
    if not running and not waiting:
        return f"Healthy and idle: nothing runs, nobody waits, and {percent(used)} of the cache is in use."
    waits = "nobody waits" if not waiting else f"{counted(waiting, 'request')} {'waits' if waiting == 1 else 'wait'}"
    runs = f"{counted(running, 'request')} {'runs' if running == 1 else 'run'}"
    return f"Healthy: {runs}, {waits}, and {percent(used)} of the cache is in use."
