"""The whole backend in a test client, following a small engine over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from kvxray_backend.backend import Backend
from kvxray_backend.main import create_app
from kvxray_backend.settings import load_settings

from tests.backend.small_engine import SmallEngine

ADDRESS = "http://127.0.0.1:8501"


def source_of(engine: SmallEngine, name: str = "engine", api: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "events": engine.publisher.events_address,
        "replay": engine.publisher.replay_address,
        "api": api,
    }


@contextmanager
def serving(folder: Path, *sources: dict[str, Any], **settings: Any) -> Iterator[TestClient]:
    """The app, started; stopped in the end."""
    app = create_app(load_settings(data_dir=folder, sources=sources, page=False, **settings))
    with TestClient(app, base_url=ADDRESS) as http:
        yield http


def backend_of(http: TestClient) -> Backend:
    backend = http.app.state.backend
    assert isinstance(backend, Backend)
    return backend


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """What the condition says once it says something."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)
    return found


def caught_up(http: TestClient, engine: SmallEngine, source: str = "engine") -> None:
    """Waits until the backend has folded all that the engine told."""
    last = engine.recorder.next_wire_seq - 1
    live = backend_of(http).sources[source].live
    until(lambda: live.wire_seq is not None and live.wire_seq >= last and live.connection == "connected")
