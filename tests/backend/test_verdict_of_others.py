"""Verdicts on engines that tell of hashes, or of metrics alone: what is judged, and what is said not to be."""

from __future__ import annotations

from typing import Any

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.analysis.verdict import judge
from kvxray_backend.analysis.verdict_signs import Signs, Verdict
from kvxray_backend.figure import Figure, Unit
from kvxray_backend.overview_figures import NOT_TOLD, not_told

WELL = {"used": 0.4, "running": 2, "waiting": 0, "hit_rate": 0.5}


def verdict(told: dict[str, float], *findings: Finding, **more: Any) -> Verdict:
    figures = dict(not_told())
    for name, value in told.items():
        unit: Unit = figures[name].unit
        figures[name] = Figure(value=value, unit=unit, certainty="derived")
    signs: dict[str, Any] = {"connection": "connected", "kind": "hashes", "metrics": "reading"} | more
    return judge(Signs(figures=figures, findings=findings, **signs))


def finding(kind: str, severity: Any = "warning") -> Finding:
    return Place("e", 1, 5, 1).finding(kind, severity, "Something is wrong.")


def test_an_engine_with_metrics_is_judged_and_says_that_leaks_were_not_looked_for() -> None:
    found = verdict(WELL)
    assert (found.status, found.sentence) == (
        "healthy",
        "Healthy: 2 requests run, nobody waits, and 40.0% of the cache is in use.",
    )
    assert any(one.startswith("leaks:") for one in found.not_judged)
    assert "leaked" not in found.evidence


def test_events_alone_are_no_reason_to_call_an_engine_healthy() -> None:
    found = verdict({}, metrics="none")
    assert found.status == "cannot_tell"
    assert found.sentence == (
        "Cannot tell, because its metrics are not read: events alone tell neither how full it is nor who waits."
    )


def test_an_idle_engine_is_silent_and_judged_by_its_metrics() -> None:
    idle = {"used": 0.0, "running": 0, "waiting": 0}
    assert verdict(idle, connection="stale").status == "healthy"
    assert verdict(idle, connection="no_stream", kind="metrics").status == "healthy"
    assert verdict({}, connection="stale", metrics="none").status == "cannot_tell"


def test_why_nothing_is_heard_is_said_where_it_is_known() -> None:
    found = verdict({}, connection="waiting", metrics="none", trouble="No connection to tcp://h:1.")
    assert found.sentence == "Cannot tell, because no connection to tcp://h:1."


def test_a_pool_whose_numbers_do_not_add_up_is_critical_whatever_else_is_well() -> None:
    found = verdict(WELL, finding("metrics_contradiction"), finding("conservation_violation", "critical"))
    assert (found.status, found.rule, found.cause) == ("critical", "conservation_violation", "kv")
    assert found.sentence == "KV: Something is wrong."


def test_a_cache_that_thrashes_is_trouble_of_its_kind() -> None:
    found = verdict(WELL, finding("thrash"))
    assert (found.status, found.rule, found.cause) == ("warning", "thrash", "kv")
    assert verdict(WELL, finding("thrash", "info")).status == "healthy"


def test_an_engine_that_works_while_its_events_do_not_come_is_not_healthy() -> None:
    found = verdict(WELL, finding("stale_stream"), connection="stale")
    assert (found.status, found.rule, found.cause) == ("warning", "stale_stream", None)


def test_silence_without_metrics_is_said_with_how_long_it_lasts() -> None:
    silent = Place("e", 1, 5, 1).finding("stale_stream", "info", "No batch.", numbers={"silent_s": 125.0})
    assert verdict({}, silent, connection="stale", metrics="none").sentence == (
        "Cannot tell, because nothing was heard from the engine for 2 min and whether it works is not known."
    )


def test_information_is_no_trouble() -> None:
    assert verdict(WELL, finding("config", "info"), finding("duplicate_batch", "info")).status == "healthy"


def test_what_a_gap_hides_is_not_judged() -> None:
    assert "what was lost in a gap of the events" in verdict(WELL, finding("seq_gap")).not_judged


def test_the_rules_of_queues_and_preemptions_hold_for_everybody() -> None:
    storm = verdict({**WELL, "preemptions_10m": 100, "finished_10m": 50})
    assert (storm.status, storm.rule) == ("warning", "preemption_storm")


def test_figures_of_the_overview_are_all_there_where_nothing_is_told() -> None:
    figures = not_told()
    assert set(NOT_TOLD) <= figures.keys()
    assert {(figure.value, figure.certainty) for figure in figures.values()} == {(None, "not_observable")}
