"""Under a base path: everything is there, as the browser asks for it and as a proxy leaves it; nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.base_path import OWN_FOLDERS
from kvxray_backend.settings import load_settings
from kvxray_engine.errors import UserError
from starlette.testclient import WebSocketDenialResponse

from tests.backend.served import serving

BASE = "/kv/xray"
HERE = {"host": "127.0.0.1:8501"}


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, base_path=BASE) as client:
        client.follow_redirects = False
        yield client


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, base_path=BASE, token="secret") as client:
        client.follow_redirects = False
        yield client


@pytest.mark.parametrize("left", [BASE, ""])
def test_api_assets_and_page_are_there_whether_a_proxy_takes_the_path_away_or_not(http: TestClient, left: str) -> None:
    assert http.get(f"{left}/api/health").json()["status"] == "ok"
    assert http.get(f"{left}/api/nope").json()["error"].startswith("There is no")
    assert "javascript" in http.get(f"{left}/assets/kvxray/address.js").headers["content-type"]
    assert "/api/" in http.get(f"{left}/").text


def test_the_path_alone_leads_to_the_page_at_the_host_the_browser_used(http: TestClient) -> None:
    assert http.get(f"{BASE}?source=a").headers["location"] == f"{BASE}/?source=a"
    assert http.get(BASE).headers["location"] == f"{BASE}/"


@pytest.mark.parametrize("path", ["/kv/xrays/api/health", "/kv/api/health", "//api/health"])
def test_what_only_resembles_the_path_is_another(http: TestClient, path: str) -> None:
    assert http.get(f"http://127.0.0.1:8501{path}").status_code == 404


@pytest.mark.parametrize("left", [BASE, ""])
def test_the_gate_stands_before_both(guarded: TestClient, left: str) -> None:
    assert guarded.get(f"{left}/api/health").json()["error"].startswith("Show the token")
    assert guarded.get(f"{left}/").status_code == 401
    shown = {"authorization": "Bearer secret"}
    assert guarded.get(f"{left}/api/health", headers=shown).status_code == 200
    assert guarded.get(f"{left}/api/health", headers={**shown, "host": "evil.example"}).status_code == 403
    assert guarded.get(f"{left}/api/health", headers={**shown, "origin": "http://evil.example"}).status_code == 403
    with pytest.raises(WebSocketDenialResponse) as denied, guarded.websocket_connect(f"{left}/api/live", headers=HERE):
        pass
    assert denied.value.status_code == 401


@pytest.mark.parametrize("left", [BASE, ""])
def test_a_token_is_kept_for_the_path_and_the_page_opened_there(guarded: TestClient, left: str) -> None:
    opened = guarded.get(f"{left}/history?token=secret&source=a")
    assert opened.headers["location"] == f"{BASE}/history?source=a"
    assert f"Path={BASE};" in opened.headers["set-cookie"]
    assert guarded.get(f"{BASE}/api/health").status_code == 200
    assert guarded.get("/api/health").status_code == 401, "a browser shows the cookie nowhere else"


@pytest.mark.parametrize("folder", sorted(OWN_FOLDERS))
def test_a_path_that_kvxray_needs_itself_is_refused(folder: str) -> None:
    with pytest.raises(UserError) as refused:
        load_settings(base_path=f"/{folder}/x")
    assert str(refused.value) == (
        f"Mend KVXRAY_BASE_PATH: '/{folder}/x' is where kvxray keeps something of its own; take a path such as /kvxray."
    )
    assert load_settings(base_path=f"/x/{folder}").base_path == f"/x/{folder}"
