"""Every number that the API tells, and so the page, equals what a plain recount of a keyframe and the events says.

A number that nobody recounts fails the test, so that none can be added without an independent calculation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.recounted import (
    NOT_TOLD_BY_EVENTS,
    OF_A_BLOCK,
    OF_A_REQUEST,
    OF_A_ROW,
    OF_THE_SOURCE,
    OF_THE_STATE,
    Number,
)
from tests.integration.watched_life import Life, Moment


def numbers_in(answer: Mapping[str, Any], path: str = "") -> dict[str, Number]:
    """Every number of an answer by where it stands, lists left out; figures by their value, null or not."""
    found: dict[str, Number] = {}
    for name, part in answer.items():
        if isinstance(part, dict):
            is_figure = "certainty" in part
            found |= {path + name: part["value"]} if is_figure else numbers_in(part, f"{path}{name}.")
        elif isinstance(part, (int, float)) and not isinstance(part, bool):
            found[path + name] = part
    return found


def same(number: Number) -> Any:
    return number if number is None else pytest.approx(number, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", OF_THE_STATE)
def test_a_figure_is_what_the_events_tell(life: Life, moment: Moment, name: str) -> None:
    told = numbers_in(life.get("/api/state", **moment.query))
    assert told[name] == same(OF_THE_STATE[name](moment.truth))


def test_every_number_of_the_summary_is_recounted(life: Life, moment: Moment) -> None:
    summary = life.get("/api/summary", **moment.query)
    assert numbers_in(summary["state"]).keys() == OF_THE_STATE.keys()
    told = numbers_in(summary["source"])
    assert told.keys() == OF_THE_SOURCE.keys() | NOT_TOLD_BY_EVENTS
    for name, count in OF_THE_SOURCE.items():
        assert told[name] == count(moment.truth), name
    assert summary["state"] == life.get("/api/state", **moment.query)
    leaking = sum(moment.truth.leaks(name) for name in moment.truth.requests)
    told = {name: part for name, part in summary.items() if isinstance(part, int)}
    assert told == {"num_findings": leaking, "leaking_requests": leaking}


def test_no_figure_stands_still(life: Life) -> None:
    """Else it could be told by a constant, and be right."""
    for name, count in OF_THE_STATE.items():
        if name.startswith("figures."):
            assert {count(at.truth) for at in life.moments.values()} - {0, None}, name


def test_every_request_is_what_its_events_tell(life: Life, moment: Moment) -> None:
    table = life.get("/api/requests", limit=1000, **moment.query)
    requests = moment.truth.requests
    assert table["total"] == len(requests)
    assert {row["request_id"] for row in table["requests"]} == requests.keys()
    for row in table["requests"]:
        name = row["request_id"]
        expected = {key: same(count(moment.truth, name, requests[name])) for key, count in OF_A_ROW.items()}
        assert numbers_of(row, expected) == expected, name
        assert row["status"] == requests[name].status
    shown = life.get("/api/summary", **moment.query)["requests"]
    assert shown == table["requests"][: len(shown)]


def test_one_request_is_what_its_events_tell(life: Life, moment: Moment) -> None:
    for name, request in list(moment.truth.requests.items())[-30:]:
        told = life.get(f"/api/requests/{name}", **moment.query)
        expected = {key: same(count(moment.truth, name, request)) for key, count in OF_A_REQUEST.items()}
        assert numbers_of(told, expected) == expected, name
        assert sorted(told["block_table"]) == [block.block_id for block in moment.truth.held_by(name)]


def test_every_block_is_what_its_events_tell(life: Life, moment: Moment) -> None:
    truth = moment.truth
    for block_id, block in truth.blocks.items():
        told = life.get(f"/api/blocks/{block_id}", history=0, **moment.query)
        expected = {key: same(count(truth, block)) for key, count in OF_A_BLOCK.items()}
        assert numbers_of(told, expected) == expected, block_id
        assert told["state"] == block.state
        holders = [(holder["request_id"], holder["leaked"]) for holder in told["holders"]]
        assert sorted(holders) == sorted((name, truth.leaks(name)) for name in block.holders)
        assert [holder["holder"] for holder in told["holders"]] == sorted(
            truth.requests[name].ordinal for name in block.holders
        )


def test_a_leak_is_as_large_and_as_old_as_its_events_tell(life: Life, moment: Moment) -> None:
    truth = moment.truth
    findings = life.get("/api/summary", **moment.query)["findings"]
    found = {finding["subjects"]["requests"][0]: finding["numbers"] for finding in findings}
    assert found.keys() == {name for name in truth.requests if truth.leaks(name)}
    for name, numbers in found.items():
        blocks, ended_ms = truth.leaked_blocks(name), truth.requests[name].ended_ms
        assert ended_ms is not None
        assert set(numbers) == {"blocks", "blocks_only", "ended_s_ago"}
        assert (numbers["blocks"], numbers["blocks_only"]) == (len(blocks), len(blocks & truth.leaked_only()))
        assert numbers["ended_s_ago"] == pytest.approx((truth.now_ms - ended_ms) / 1000, abs=0.001)


def numbers_of(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Number]:
    """The numbers of an answer, and of what may be null those that are expected."""
    return {name: None for name in expected if name in answer and answer[name] is None} | numbers_in(answer)
