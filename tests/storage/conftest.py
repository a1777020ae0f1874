"""A fresh database for each test, closed at its end; and findings to store in it."""

from __future__ import annotations

import pytest
from kvxray_storage.database import open_database
from kvxray_storage.records import FindingRow

from tests.storage.told_messages import T0_NS


@pytest.fixture
def database(tmp_path):
    opened = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    yield opened
    opened.close()


@pytest.fixture
def make_finding():
    def make(id="leak-1", state="open", **changes):
        values = {
            "id": id, "kind": "leak", "severity": "warning", "source": "engine", "epoch": 1, "seq0": 10, "seq1": 20,
            "time_ns": T0_NS, "state": state, "ended_ns": None, "subjects": {"blocks": [3], "requests": ["request-1"]},
            "numbers": {"blocks": 1}, "certainty": "exact", "sentence": "Block 3 is still held.",
        }  # fmt: skip
        return FindingRow(**(values | changes))

    return make
