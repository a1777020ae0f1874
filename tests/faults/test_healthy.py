"""Half a million healthy rows of every kind of traffic that there is: no rule fires."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.expression import FigureNow, walk
from kvxray_backend.alerts.rules import RULES

from tests.faults.healthy import DATA, Outcome, of_agents, of_crowd, of_traces
from tests.faults.healthy_streams import HealthyStream, streams

STREAMS = list(streams(DATA / "captures"))


def silent(outcome: Outcome, rows: int) -> None:
    assert outcome.rows >= rows
    assert outcome.looks >= outcome.seconds // 6, "the rules were not looked at"
    assert [(alert.rule, alert.culprit) for alert in outcome.alarms] == []


def test_a_pool_where_all_happens_that_may() -> None:
    """For most of an hour of the engine's time: longer than any rule waits before it fires."""
    crowd = of_crowd(120_000)
    silent(crowd, 120_000)
    assert crowd.seconds > 450


def test_agents() -> None:
    silent(of_agents(100_000), 100_000)


def test_traffic_of_real_users() -> None:
    outcomes = list(of_traces(280_000))
    for outcome in outcomes:
        silent(outcome, 1)
    assert sum(outcome.rows for outcome in outcomes) >= 280_000


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_recorded_streams_of_real_engines(stream: HealthyStream) -> None:
    stream.run()
    assert stream.rows > 10
    assert stream.desk.num_looks > 150
    assert [(alert.rule, alert.culprit) for alert in stream.desk.fired] == []


def test_there_are_recordings_of_both_engines() -> None:
    names = " ".join(stream.name for stream in STREAMS)
    assert all(one in names for one in ("server-vllm", "vllm-0.11.2", "vllm-0.32.0", "sglang"))


def test_no_rule_rests_on_figures_which_are_not_made_here() -> None:
    assert not any(isinstance(node, FigureNow) for rule in RULES.values() for node in walk(rule.when))
