"""The verdict on engines that tell of hashes, or of nothing but metrics: what can be judged of them, and what cannot.
Pure.

How full such a cache is and who waits only its metrics tell; who holds which block nobody tells, so that leaks are not
looked for. Findings that say that something is wrong are a reason by themselves.
"""

from __future__ import annotations

from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.verdict_rules import Need, Rule
from kvxray_backend.analysis.verdict_signs import Signs, Trouble, lasting

WELL_OF_OTHERS: Final = ("used", "hit_rate", "running", "waiting")

_NO_BLOCK_IS_FREED: Final = "Look at the engine's own pool: its numbers do not add up."
_ADVICE: Final = {
    "conservation_violation": _NO_BLOCK_IS_FREED,
    "metrics_contradiction": "Look whether both addresses are of the same engine.",
    "config": "Look at the engine's options; the finding names the one.",
    "hash_seed_mismatch": "Give the engines the same PYTHONHASHSEED and hash algorithm.",
    "thrash": "What is in use does not fit: send this engine less, shorten contexts, or give the cache more blocks.",
    "stale_stream": "Try the connection on Attach; look whether its events go to another port or topic, or are off.",
}
"""Kinds of findings that are trouble while they are open; those of a severity of at least warning."""
_OF_NO_CACHE: Final = frozenset({"metrics_contradiction", "stale_stream"})
"""They say that we are told wrongly, or nothing, and not what is wrong with the engine."""
_SPOILS: Final = {
    "seq_gap": "what was lost in a gap of the events",
    "joined_midstream": "what was cached before the events were followed",
    "resident_over_capacity": "how much is cached: events tell of more than the engine has",
}


def told_wrong(signs: Signs) -> Trouble | None:
    """The worst of what is found wrong with it."""
    found = [one for one in signs.findings if one.kind in _ADVICE and one.severity != "info"]
    if not found:
        return None
    worst = max(found, key=_badness)
    is_of_cache = worst.kind not in _OF_NO_CACHE
    return Trouble(
        worst.kind,
        "critical" if worst.severity == "critical" else "warning",
        "kv" if is_of_cache else None,
        f"KV: {worst.sentence}" if is_of_cache else worst.sentence,
        _ADVICE[worst.kind],
        ("used",),
    )


OF_OTHERS: Final[tuple[Rule, ...]] = (told_wrong,)


def deaf_to_others(signs: Signs) -> str:
    """Why nothing at all can be said of now; metrics alone say enough."""
    if signs.metrics == "reading" and signs.value("running") is not None:
        return ""
    if signs.trouble and signs.connection in ("waiting", "stale"):
        return signs.trouble[:1].lower() + signs.trouble[1:].rstrip(".")
    if signs.connection == "waiting":
        return "nothing has been heard from the engine yet"
    if signs.connection == "stale":
        return _silence(signs)
    if signs.kind == "metrics" and signs.metrics == "failing":
        return "its metrics cannot be read"
    return ""


def _silence(signs: Signs) -> str:
    silent_s = max(
        (one.numbers.get("silent_s", 0.0) for one in signs.findings if one.kind == "stale_stream"), default=0
    )
    lasted = f"for {lasting(silent_s)} " if silent_s else ""
    return f"nothing was heard from the engine {lasted}and whether it works is not known"


def blind_of_others(signs: Signs) -> str:
    """Why nothing found wrong does not mean that all is well."""
    if signs.metrics == "none":
        return "its metrics are not read: events alone tell neither how full it is nor who waits"
    if signs.metrics == "failing":
        return "its metrics cannot be read, and events alone tell neither how full it is nor who waits"
    if signs.value("used") is None:
        return "its metrics do not tell how full the cache is"
    if signs.value("running") is None or signs.value("waiting") is None:
        return "its metrics do not tell which requests run and which wait"
    return ""


def spoiled_of_others(signs: Signs) -> tuple[str, ...]:
    """What an open finding keeps from being judged."""
    kinds = {one.kind for one in signs.findings if one.state == "open"}
    return tuple(what for kind, what in _SPOILS.items() if kind in kinds)


NEEDS_OF_OTHERS: Final = (
    Need(("leaked",), "leaks: no events of this engine tell who holds blocks", is_of_work=False),
    Need(("hit_rate",), "the hit rate: no metrics tell it, or no prompt was looked up in the last minute"),
    Need(("preemptions_10m",), "preemptions for each finished request: no metrics tell of the last 10 minutes"),
    Need(("ttft_5m_s", "ttft_hour_s"), "first tokens against the hour before: no metrics tell of it"),
    Need(("transfers",), "transfers between engines or tiers: its metrics tell of none", is_of_work=False),
)


def _badness(finding: Finding) -> tuple[bool, int]:
    return finding.severity == "critical", -list(_ADVICE).index(finding.kind)
