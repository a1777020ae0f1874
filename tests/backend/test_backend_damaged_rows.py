"""What is stored is damaged, or we made a mistake: the API says so in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from kvxray_storage.records import FindingRow

from tests.backend.served import ADDRESS, backend_of, caught_up
from tests.backend.small_engine import SmallEngine

OPEN_LEAK = FindingRow(
    id="leak-1", kind="leak", severity="warning", source="engine", epoch=1, seq0=1, seq1=2, time_ns=0, state="open",
    ended_ns=None, subjects={}, numbers={}, certainty="exact", sentence="Block 3 is still held.",
)  # fmt: skip


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(leak=True) as engine:
        yield engine


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "UPDATE epoch SET descriptor = '{'",
            "What is stored of that moment is damaged: What epoch 1 is cannot be read:",
        ),
        ("UPDATE finding SET subjects = '['", "What is stored of that moment is damaged: The finding leak-1 cannot be"),
        (
            "UPDATE finding SET certainty = 'x'",
            "What is stored of that moment is damaged: The finding leak-1 cannot be",
        ),
    ],
)
def test_damaged_rows_are_told_in_one_sentence(client: TestClient, engine: SmallEngine, damage: str, told: str) -> None:
    engine.work(20)
    caught_up(client, engine)
    log, database = backend_of(client).log, backend_of(client).database
    log.finding(OPEN_LEAK)
    assert log.flush(5)
    last = client.get("/api/state").json()["seq"]
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    answer = client.get("/api/state", params={"at": last})
    assert answer.status_code == 500
    assert answer.json()["error"].startswith(told)


def test_a_mistake_of_ours_is_told_in_one_sentence_too(client: TestClient, engine: SmallEngine) -> None:
    engine.work(3)
    caught_up(client, engine)
    patient = TestClient(client.app, base_url=ADDRESS, raise_server_exceptions=False)
    with backend_of(client).database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO bookmark VALUES ('x', 'engine', 1, -1, 0, '', 0, NULL)")
    answer = patient.get("/api/bookmarks")
    assert answer.status_code == 500
    assert answer.json() == {"error": "kvxray made a mistake over this request; its log tells which."}
