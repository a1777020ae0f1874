"""The verdict on a router, which has no cache: whether it finds engines, whether its requests end well, whether its
index of all caches follows them, and how much of what is cached it leaves unused. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvxray_backend.analysis.verdict_signs import Signs, Trouble, Verdict, counted, lasting, percent

ERRORS_AT_LEAST: Final = 5
ERRORS: Final = 0.05
AFFINITY_LOST: Final = 0.2
"""As the alert rule of it has it."""
BEHIND_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RouterSigns:
    """What its metrics tell; None: they do not. `requests_10m`, `errors_10m`: of the last ten minutes. `subscribers`:
    engines whose events it follows. `behind_s`: how long the messages that wait for its index took to come.
    """

    running: float | None = None
    requests_10m: float | None = None
    errors_10m: float | None = None
    endpoints: float | None = None
    subscribers: float | None = None
    behind_s: float | None = None
    affinity_lost: float | None = None


def judge_router(signs: Signs, router: RouterSigns) -> Verdict:
    """The worst of it first; healthy only where its requests are told."""
    not_judged = _not_judged(router)
    if signs.metrics != "reading":
        why = "cannot be read" if signs.metrics == "failing" else "are not read"
        return _cannot_tell(f"its metrics {why}: a router tells of itself by them alone", not_judged)
    rules = (_no_endpoint, _errors, _deaf_index, _behind, _affinity)
    found = [trouble for rule in rules if (trouble := rule(router)) is not None]
    if found:
        worst, *others = found
        also = tuple(one.sentence for one in others)
        return Verdict(
            worst.status, worst.cause, worst.rule, worst.sentence, worst.advice, worst.evidence, also, not_judged
        )
    if router.running is None and router.requests_10m is None:
        return _cannot_tell("its metrics tell of no requests", not_judged)
    return Verdict("healthy", None, "healthy", _all_well(router), evidence=("affinity_lost",), not_judged=not_judged)


def _cannot_tell(reason: str, not_judged: tuple[str, ...]) -> Verdict:
    return Verdict("cannot_tell", None, "cannot_tell", f"Cannot tell, because {reason}.", not_judged=not_judged)


def _no_endpoint(router: RouterSigns) -> Trouble | None:
    if router.endpoints != 0:
        return None
    sentence = "The router has no engine that it may send to."
    return Trouble("no_endpoint", "critical", None, sentence, "Look whether engines are ready and in its pool.", ())


def _errors(router: RouterSigns) -> Trouble | None:
    """A few errors of few requests say nothing."""
    errors, requests = router.errors_10m, router.requests_10m
    if errors is None or not requests or errors < ERRORS_AT_LEAST or errors < ERRORS * requests:
        return None
    told = f"{counted(errors, 'request')} of {requests:,.0f} ended in an error in 10 min."
    return Trouble("router_errors", "warning", None, told, "Signals shows the errors by their code.", ())


def _deaf_index(router: RouterSigns) -> Trouble | None:
    """No subscriber at all: a router without an index of events, which guesses what is cached."""
    if not router.subscribers or router.endpoints is None or router.subscribers >= router.endpoints:
        return None
    told = f"The router's index follows the events of {router.subscribers:,.0f} of {router.endpoints:,.0f} engines."
    return Trouble("index_deaf", "warning", None, told, "Look which engines publish no events, or where it dials.", ())


def _behind(router: RouterSigns) -> Trouble | None:
    """What it takes for cached may be gone by then, and what came since it does not know."""
    if router.behind_s is None or router.behind_s < BEHIND_S:
        return None
    told = f"The router's index is some {lasting(router.behind_s)} behind the events of the engines."
    return Trouble("index_behind", "warning", None, told, "Give its pool of events more workers or more CPU.", ())


def _affinity(router: RouterSigns) -> Trouble | None:
    lost = router.affinity_lost
    if lost is None or lost <= AFFINITY_LOST:
        return None
    told = f"KV: {percent(lost)} of the cached tokens were not where the router sent the requests."
    advice = "Give cached prefixes more weight against load, or look whether its index is whole."
    return Trouble("affinity_lost", "warning", "kv", told, advice, ("affinity_lost",))


def _all_well(router: RouterSigns) -> str:
    parts = []
    if router.running is not None:
        parts.append(f"{counted(router.running, 'request')} {'is' if router.running == 1 else 'are'} under way")
    elif router.requests_10m is not None:
        parts.append(f"{counted(router.requests_10m, 'request')} came in 10 min")
    if router.endpoints is not None:
        parts.append(f"{counted(router.endpoints, 'engine')} {'is' if router.endpoints == 1 else 'are'} ready")
    return f"Healthy: {', '.join(parts)}."


def _not_judged(router: RouterSigns) -> tuple[str, ...]:
    missing = (
        (router.endpoints, "whether it finds engines: its metrics do not tell"),
        (router.errors_10m, "errors: its metrics do not tell of the last 10 minutes"),
        (router.subscribers, "its index: its metrics tell of none that follows events"),
        (router.affinity_lost, "cached tokens that it left unused: its metrics do not tell of the last half hour"),
    )
    return tuple(why for value, why in missing if value is None)
