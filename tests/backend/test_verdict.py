"""The verdict: every rule with signs that yield it and signs that nearly do, and every reason to abstain."""

from __future__ import annotations

from typing import Any

import pytest
from kvxray_backend.analysis import verdict_rules
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.verdict import judge
from kvxray_backend.analysis.verdict_signs import Signs
from kvxray_backend.figure import Figure
from kvxray_backend.overview_evidence import LABELS

WELL: dict[str, float | None] = {
    "used": 0.5, "unknown": 0, "leaked": 0, "leaked_only": 0, "leaked_by_requests": 0, "lost_to_requests": 0,
    "expired_leases": 0, "running": 8, "waiting": 0, "silent_s": 0.1, "waiting_low": 0, "used_low": 0.4,
    "used_high": 0.6, "oldest_wait_s": None, "hit_rate": 0.5, "hit_rate_30m": 0.5, "hit_rate_before": 0.5,
    "hit_rate_day": 0.5, "queried_30m": 200_000, "watched_s": 90_000, "preemptions_10m": 3, "finished_10m": 400,
    "preemptions_per_finished": 0.0075, "ttft_5m_s": 0.4, "ttft_hour_s": 0.4, "first_tokens_5m": 200,
    "first_tokens_hour": 2000, "queue_p50_s": 0.05, "prefill_p50_s": 0.35, "transfers": 0,
}  # fmt: skip
"""Of a healthy engine of which everything is known."""

IDLE = {"running": 0, "waiting": 0, "used": 0.03, "silent_s": 600}
STORM = {"preemptions_10m": 130, "finished_10m": 400}
LINE = {"waiting": 4, "waiting_low": 1}
SLOW = {"ttft_5m_s": 0.8}
COLLAPSE = {"hit_rate_30m": 0.24}


def signs(connection: str = "connected", *kinds: str, absence: str = "", **changed: float | None) -> Signs:
    figures = {name: Figure(value=value, unit="ratio") for name, value in (WELL | changed).items()}
    return Signs(connection, figures, tuple(finding(kind) for kind in kinds), absence)


def finding(kind: str) -> Finding:
    return Finding(
        id=kind, kind=kind, severity="warning", source="s", epoch=1, seq0=0, seq1=0, time_ns=1, sentence="Something."
    )


@pytest.mark.parametrize(
    ("changed", "rule", "status", "cause"),
    [
        ({"leaked": 1, "leaked_by_requests": 1, "lost_to_requests": 1}, "leak", "critical", "kv"),
        ({"leaked": 9, "leaked_by_requests": 9}, "leak", "warning", "kv"),
        ({"expired_leases": 1, "leaked": 4}, "expired_lease", "warning", "transfer"),
        ({"silent_s": 180}, "no_progress", "critical", "compute"),
        ({"running": 0, "waiting": 1, "silent_s": 200}, "no_progress", "critical", "compute"),
        ({**STORM, "hit_rate_30m": 0.2}, "thrash", "critical", "kv"),
        (STORM, "preemption_storm", "warning", "kv"),
        ({"preemptions_10m": 21, "finished_10m": 0}, "preemption_storm", "warning", "kv"),
        ({**LINE, "used_low": 0.9, "used_high": 0.99}, "starved", "warning", "kv"),
        ({**LINE, "used_low": 0.2, "used_high": 0.32}, "queued", "warning", "queue"),
        ({**LINE, "used_low": 0.7, "used_high": 0.95}, "waiting", "warning", None),
        (COLLAPSE, "hit_collapse", "warning", "kv"),
        (SLOW, "slower", "warning", "compute"),
        ({**SLOW, "queue_p50_s": 0.6, "prefill_p50_s": 0.2}, "slower", "warning", "queue"),
        ({**SLOW, "queue_p50_s": 0.6, "prefill_p50_s": 0.2, "used_low": 0.95}, "slower", "warning", "kv"),
        (IDLE, "held_idle", "warning", "kv"),
    ],
)
def test_a_rule_yields(changed: dict[str, Any], rule: str, status: str, cause: str | None) -> None:
    verdict = judge(signs(**changed))
    assert (verdict.rule, verdict.status, verdict.cause) == (rule, status, cause)
    assert verdict.advice
    assert verdict.sentence.endswith(".")
    assert set(verdict.evidence) <= set(LABELS)
    if cause:
        assert verdict.sentence.lower().startswith(f"{cause}: ")


@pytest.mark.parametrize(
    "changed",
    [
        {"leaked": 0, "leaked_by_requests": 0},
        {"expired_leases": 0},
        {"silent_s": 179},
        {"preemptions_10m": 20, "finished_10m": 10},
        {"preemptions_10m": 119, "finished_10m": 400},
        # Hits alone say nothing of thrash: no storm, and the day says nothing else.
        {"hit_rate_30m": 0.26, "hit_rate_before": 0.9},
        {"waiting": 4, "waiting_low": 0, "used_low": 0.95},
        # A full cache with nobody waiting is a happy batch.
        {"used": 0.99, "used_low": 0.98, "used_high": 1.0},
        {"hit_rate_30m": 0.25},
        {**COLLAPSE, "queried_30m": 50_000},
        {**COLLAPSE, "watched_s": 3599},
        {"hit_rate_30m": 0.05, "hit_rate_day": 0.2},
        {"ttft_5m_s": 0.79},
        {**SLOW, "first_tokens_5m": 19},
        {**SLOW, "first_tokens_hour": 19},
        {"ttft_5m_s": 0.19, "ttft_hour_s": 0.05},
        {**IDLE, "silent_s": 599},
        {**IDLE, "used": 0.005},
    ],
)
def test_what_is_nearly_wrong_is_healthy(changed: dict[str, Any]) -> None:
    verdict = judge(signs(**changed))
    assert (verdict.status, verdict.rule) == ("healthy", "healthy")
    assert verdict.not_judged == ()


@pytest.mark.parametrize("name", sorted(set(WELL) - {"oldest_wait_s"}))
def test_no_rule_rests_on_what_is_not_known(name: str) -> None:
    verdict = judge(signs(**{name: None}))
    assert verdict.status in ("healthy", "cannot_tell")
    assert not verdict.also


def test_a_storm_without_hits_known_is_no_thrash() -> None:
    assert judge(signs(**STORM, hit_rate_before=None)).rule == "preemption_storm"
    assert judge(signs(**STORM, hit_rate_30m=0.1, hit_rate_before=0.2, hit_rate_day=0.1)).rule == "preemption_storm"


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (signs("waiting"), "nothing has been heard from the engine yet"),
        (signs("joining"), "its state has not come yet"),
        (signs("stale", "stale", leaked_by_requests=5), "nothing is heard from the engine any more"),
        (signs("connected", "audit"), "contradict each other"),
        (signs("past", absence="No state of the source x is stored."), "no state of the source x is stored."),
        (signs(used=None, unknown=12), "12 blocks cannot be told apart"),
        (signs(used=None, unknown=None), "the state of the pool is not known"),
        (signs(leaked=None), "who holds which blocks"),
        (signs(waiting=None, waiting_low=None), "which requests run and which wait"),
    ],
)
def test_it_abstains_and_says_why(given: Signs, because: str) -> None:
    verdict = judge(given)
    assert (verdict.status, verdict.cause, verdict.evidence) == ("cannot_tell", None, ())
    assert verdict.sentence.startswith("Cannot tell, because ")
    assert because in verdict.sentence
    assert not verdict.sentence.endswith("..")


def test_what_is_certain_is_said_though_part_is_unknown() -> None:
    assert judge(signs(used=None, unknown=3, leaked_by_requests=2)).rule == "leak"


def test_the_worst_gives_the_sentence_and_the_others_stand_beside_it() -> None:
    verdict = judge(signs(**LINE, **STORM, leaked_by_requests=4, lost_to_requests=4, used_low=0.95, used_high=1.0))
    assert verdict.rule == "leak"
    assert [sentence[:20] for sentence in verdict.also] == ["KV: requests push ea", "KV: prompts have wai"]


def test_what_could_not_be_looked_at_is_listed_unless_it_is_no_matter() -> None:
    unknown = dict.fromkeys(("transfers", "waiting_low", "preemptions_10m", "ttft_hour_s", "hit_rate_day"))
    busy, idle = judge(signs(**unknown)), judge(signs(**unknown, running=0, used=0.0))
    assert len(busy.not_judged) == len(verdict_rules.NEEDS) == 5
    assert idle.not_judged == (verdict_rules.NEEDS[0].not_judged,)


def test_sentences_of_health_are_of_now() -> None:
    assert judge(signs(waiting=1)).sentence == (
        "Healthy: 8 requests run, 1 request waits, and 50.0% of the cache is in use."
    )
    assert judge(signs(running=0, used=0.0)).sentence == (
        "Healthy and idle: nothing runs, nobody waits, and 0.0% of the cache is in use."
    )


def test_every_rule_says_why_it_is_one() -> None:
    assert all((rule.__doc__ or "").strip() for rule in verdict_rules.RULES)


@pytest.mark.parametrize(("needed", "cause", "who"), [(9, "kv", "KV: Something."), (3, "queue", "Queue: Something.")])
def test_requests_that_are_never_admitted_are_a_matter_of_blocks_where_blocks_are_missing(
    needed: int, cause: str, who: str
) -> None:
    stuck = finding("admission_stuck").model_copy(update={"numbers": {"needed_blocks": needed, "free_blocks": 5}})
    figures = signs(waiting=3, running=0).figures
    found = judge(Signs("connected", figures, (stuck,)))
    assert (found.rule, found.status, found.cause, found.sentence) == ("admission_stuck", "critical", cause, who)
    assert judge(Signs("connected", figures, (stuck.ended(2),))).rule != "admission_stuck"


def test_a_request_that_is_preempted_again_and_again_is_trouble() -> None:
    found = judge(signs("connected", "preemption_loop"))
    assert (found.rule, found.status, found.cause) == ("preemption_loop", "warning", "kv")
