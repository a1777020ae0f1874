"""A fresh database for each test, closed at its end."""

from __future__ import annotations

import pytest
from kvxray_storage.database import open_database


@pytest.fixture
def database(tmp_path):
    opened = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    yield opened
    opened.close()
