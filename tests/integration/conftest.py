"""One life of an engine, watched once for all tests that recount it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.watched_life import Life, Moment, watched_life

MOMENTS = ("past", "after a pause", "live")


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with watched_life(tmp_path_factory.mktemp("life")) as life:
        yield life


@pytest.fixture(params=MOMENTS)
def moment(life: Life, request: pytest.FixtureRequest) -> Moment:
    moment: Moment = life.moments[request.param]
    return moment
