"""An engine that works in the test, and a client of a backend that follows it; a file may have an engine of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.backend.served import serving, source_of
from tests.backend.small_engine import SmallEngine


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine() as engine:
        yield engine


@pytest.fixture
def client(engine: SmallEngine, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, source_of(engine)) as client:
        yield client
