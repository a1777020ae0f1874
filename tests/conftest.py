"""What the whole run shares: Triton's interpreter, and one PostgreSQL server, started by the tests themselves."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.postgres_server import PostgresServer, find_programs

# Read when a kernel is decorated, so before any test module, of whatever folder, imports one.
os.environ["TRITON_INTERPRET"] = "1"

NO_SERVER = "PostgreSQL's server is not installed, so nothing was tested on it. On Debian: apt-get install postgresql"
NO_MOUNTS = (
    "No file system can be mounted here, so no disk was really full. Run the tests as root, where that is allowed."
)
_skipped: Counter[str] = Counter()


def pytest_configure(config):
    """Each worker of a run on several cores has one, and torch would take all."""
    if hasattr(config, "workerinput"):
        import torch  # seconds that a run on one core of tests without it need not wait

        torch.set_num_threads(1)


def skip_loudly(reason):
    """The end of the run says how many tests did not run for this reason, one of those above."""
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_programs():
    """Their folder. Missing: CI fails, elsewhere the tests are skipped, and the end of the run says so."""
    programs = find_programs()
    if programs is None and os.environ.get("CI") == "true":
        pytest.fail(NO_SERVER)
    if programs is None:
        skip_loudly(NO_SERVER)
    return programs


@pytest.fixture(scope="session")
def postgres_server(postgres_programs):
    """Shared by all tests: it stays up. Who needs one to stop or fill makes its own."""
    server = PostgresServer(postgres_programs)
    server.make()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def reused_postgres_url(postgres_server):
    return postgres_server.create_database("kvxray")


@pytest.fixture
def postgres_url(postgres_server, reused_postgres_url):
    """Of a database that is empty now: the same for each test, since making one takes hundreds of files."""
    postgres_server.empty_database("kvxray")
    return reused_postgres_url


def pytest_runtest_logreport(report):
    _skipped.update(reason for reason in (NO_SERVER, NO_MOUNTS) if report.skipped and reason in str(report.longrepr))


def pytest_terminal_summary(terminalreporter):
    for reason, count in _skipped.items():
        terminalreporter.write_sep("!", f"{count} tests did not run", red=True, bold=True)
        terminalreporter.write_line(reason, red=True)
