"""What the API tells of an engine that works in a test, at each moment and of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from tests.backend.served import backend_of, caught_up, serving, source_of
from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine
from tests.backend.viewer import Picture, read_frame


def told_live(client: TestClient) -> dict[str, Any]:
    """What the API says of the present."""
    state = client.get("/api/state").json()
    made = backend_of(client).sources["engine"].live.snapshot_frame()
    assert made is not None
    picture = Picture()
    picture.load(read_frame(made[1]))
    return {
        "at": state["seq"],
        "state": state,
        "picture": picture,
        "requests": client.get("/api/requests", params={"limit": 1000}).json(),
        "blocks": [client.get(f"/api/blocks/{block}").json() for block in (1, 2, 30)],
        "events": client.get("/api/events", params={"limit": 50}).json()["events"],
    }


def moments(client: TestClient, engine: SmallEngine, times: int) -> list[dict[str, Any]]:
    """The present as it was told after each of some stretches of work."""
    told = []
    for _ in range(times):
        engine.work(12)
        caught_up(client, engine)
        told.append(told_live(client))
    return told


def all_events(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = "1.0"
    while page := client.get("/api/events", params={"from": at, "limit": 1000}).json():
        found += page["events"]
        if len(page["events"]) < 1000:
            return found
        at = page["next"]
    return found


@contextmanager
def minutes_of_work(folder: Path, minutes: int) -> Iterator[tuple[TestClient, str]]:
    """A backend that has followed so many minutes of the engine's time, and the last moment."""
    clock = ShiftedClock()
    with SmallEngine(clock=clock) as engine, serving(folder, source_of(engine)) as client:
        caught_up(client, engine)  # joined before anything happens, so that all of it is known
        for _ in range(minutes * 120):
            engine.work(1)
            clock.ahead_ns += 500_000_000
        caught_up(client, engine)
        yield client, client.get("/api/state").json()["seq"]
