"""The overview's figures of the minutes, the hour and the day before equal a plain recount of every event of a life."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.long_life import LongLife, long_life
from tests.integration.recounted_before import EXACT, QUANTILES, QUARTER_OF_AN_OCTAVE, LifeSoFar, life_so_far


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongLife]:
    with long_life(tmp_path_factory.mktemp("long-life")) as life:
        yield life


@pytest.fixture(scope="module")
def recounted(long: LongLife) -> dict[str, LifeSoFar]:
    """By moment."""
    return {name: life_so_far(long.events, now_ms // 1000) for name, (_, now_ms) in long.moments.items()}


@pytest.mark.parametrize("moment", ["past", "live"])
@pytest.mark.parametrize("name", EXACT)
def test_a_figure_of_the_time_before_is_what_the_events_tell(
    long: LongLife, recounted: dict[str, LifeSoFar], moment: str, name: str
) -> None:
    figure = long.figures(moment)[name]
    expected = EXACT[name](recounted[moment])
    assert expected is not None
    assert figure["value"] == pytest.approx(expected)
    assert figure["certainty"] == "derived"


@pytest.mark.parametrize("moment", ["past", "live"])
@pytest.mark.parametrize("name", QUANTILES)
def test_a_quantile_of_the_time_before_is_that_of_the_events(
    long: LongLife, recounted: dict[str, LifeSoFar], moment: str, name: str
) -> None:
    figure = long.figures(moment)[name]
    expected = QUANTILES[name](recounted[moment])
    assert expected is not None
    assert 1 / QUARTER_OF_AN_OCTAVE <= figure["value"] / expected <= QUARTER_OF_AN_OCTAVE
    assert figure["certainty"] == "derived"


def test_no_figure_of_the_time_before_stands_still(recounted: dict[str, LifeSoFar]) -> None:
    """Else it could be told by a constant, or by the figure of another stretch, and be right."""
    for name, recount in (EXACT | QUANTILES).items():
        told = {recount(so_far) for so_far in recounted.values()}
        assert None not in told, name
        assert told - {0}, name
    live = recounted["live"]
    for pair in (("used_low", "used_high"), ("hit_rate_30m", "hit_rate_day"), ("hit_rate_30m", "hit_rate_before")):
        assert EXACT[pair[0]](live) != EXACT[pair[1]](live), pair
