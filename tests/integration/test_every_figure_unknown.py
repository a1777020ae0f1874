"""What is not observable or not known is told as null, never as a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kvxray_backend.figure import Figure
from kvxray_backend.live_state import LiveState
from kvxray_backend.request_table_view import requests_view
from kvxray_backend.views import state_view
from kvxray_engine.stream.block_map import BlockMap
from pydantic import ValidationError

from tests.backend.told import Story, descriptor
from tests.integration.watched_life import Life, Moment

RESTS_ON_BLOCKS = ("used", "cached", "shared", "internal_fragmentation", "leaked", "leaked_only", "waiting")
"""Or on who holds them, or waits: none of it is known after a gap."""


def figures_in(answer: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every figure of an answer by where it stands."""
    if isinstance(answer, dict):
        if "value" in answer and "certainty" in answer:
            yield path, answer
        for name, part in answer.items():
            yield from figures_in(part, f"{path}.{name}")
    elif isinstance(answer, list):
        for at, part in enumerate(answer):
            yield from figures_in(part, f"{path}[{at}]")


@pytest.mark.parametrize("path", ["summary", "state", "requests", "sources", "overview", "blocks/1"])
def test_what_is_not_observable_is_null(life: Life, moment: Moment, path: str) -> None:
    query = {} if path == "sources" else moment.query
    found = dict(figures_in(life.get(f"/api/{path}", **query)))
    assert found
    untold = {name: figure for name, figure in found.items() if figure["certainty"] == "not_observable"}
    assert all(figure["value"] is None for figure in untold.values())
    assert bool(untold) == (path == "overview")


def test_a_number_that_cannot_be_known_is_a_mistake() -> None:
    assert Figure(value=None, unit="ratio", certainty="not_observable").value is None
    with pytest.raises(ValidationError, match="what is not observable has no value"):
        Figure(value=0, unit="ratio", certainty="not_observable")


def test_after_a_gap_nothing_that_rests_on_what_was_lost_is_a_number() -> None:
    live = lived_through_a_gap()
    state = state_view(live)
    assert state is not None
    assert state.counts["unknown"].value == 8
    of_blocks = [figure for name, figure in state.counts.items() if name != "unknown"]
    of_blocks += [state.figures[name] for name in RESTS_ON_BLOCKS]
    assert [figure.value for figure in of_blocks] == [None] * len(of_blocks)
    (row,) = requests_view(live, 10).requests
    assert (row.blocks, row.shared_blocks, row.leaked_blocks) == (None, None, None)


def test_what_was_seen_since_a_gap_is_told() -> None:
    live = lived_through_a_gap()
    live.fold(story_of("a", 3).step())
    (row,) = requests_view(live, 10).requests
    assert (row.blocks, row.shared_blocks) == (1, None)


def lived_through_a_gap() -> LiveState:
    """A request allocated two blocks and was looked up; then messages were lost."""
    live = LiveState("told")
    live.begin(1, BlockMap(descriptor(), source="told", incarnation="life-1"))
    live.fold(story_of("a", 1, 2).step())
    live.forget()
    return live


def story_of(request_id: str, *blocks: int) -> Story:
    story = Story()
    story.arrive(request_id)
    story.schedule(request_id, queried=32, hit=16)
    story.allocate(request_id, *blocks)
    return story
