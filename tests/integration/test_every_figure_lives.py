"""What the overview tells of evictions, reuse, misses and preempted work equals a plain recount of every event."""

from __future__ import annotations

import pytest

from tests.integration.recounted_lives import OF_LIVES, lately
from tests.integration.watched_life import Life, Moment


@pytest.mark.parametrize("name", OF_LIVES)
def test_a_figure_of_the_lives_of_blocks_is_what_the_events_tell(life: Life, moment: Moment, name: str) -> None:
    (engine,) = life.get("/api/overview", **moment.query)["engines"]
    expected, figure = OF_LIVES[name](lately(life, moment)), engine["figures"][name]
    assert figure["value"] == (expected if expected is None else pytest.approx(expected))
    assert figure["certainty"] == "exact"


def test_the_life_has_something_to_tell_of_each(life: Life) -> None:
    told = lately(life, life.moments["past"])
    assert min(len(told.evicted), len(told.reused), told.num_returned, len(told.ago), len(told.recomputed)) > 0
    assert {"never", "beside"} <= set(told.missed)
