"""A fresh database for each test, closed at its end, on SQLite and on PostgreSQL; and findings to store in it."""

from __future__ import annotations

import itertools

import pytest
from kvxray_storage.database import open_database
from kvxray_storage.records import FindingRow

from tests.storage.told_messages import T0_NS

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database_kind(request):
    """Whatever asks for it, and each test that asks for that, runs on both."""
    return request.param


@pytest.fixture(scope="session")
def make_database_url(database_kind, request, tmp_path_factory):
    """Addresses of new, empty databases, as many as are asked for. They stay until the end of the run."""
    if database_kind == "sqlite":
        return lambda: f"sqlite:///{tmp_path_factory.mktemp('database') / 'kvxray.db'}"
    server = request.getfixturevalue("postgres_server")
    return lambda: server.create_database(f"kvxray_{next(_numbers)}")


@pytest.fixture
def database_url(database_kind, request):
    """Of one empty database."""
    if database_kind == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'kvxray.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def database(database_url):
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_database(tmp_path):
    """For what only a file has: pages, a path, a lock of its own."""
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
