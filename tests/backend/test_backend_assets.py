"""plotly.js comes from this server: compressed, sent once to a browser that keeps it, and nothing else of its kind."""

from __future__ import annotations

import gzip

import pytest
from kvxray_backend.page import page_folder
from kvxray_backend.routes import assets
from kvxray_backend.routes.assets import ComponentFiles, plotly_file
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

FILE = "/plotly.min.js"


@pytest.fixture
def client() -> TestClient:
    folder = page_folder()
    assert folder is not None
    return TestClient(ComponentFiles(folder / "components"))


def test_plotly_is_the_file_of_the_package_whether_compressed_or_not(client: TestClient) -> None:
    file = plotly_file()
    assert file is not None
    plain = client.get(FILE, headers={"accept-encoding": "identity"})
    with client.stream("GET", FILE, headers={"accept-encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
        assert packed.headers["content-encoding"] == "gzip"
    assert plain.content == gzip.decompress(raw) == file.read_bytes()
    assert len(raw) < len(plain.content) / 3
    assert "javascript" in plain.headers["content-type"]
    assert "javascript" in packed.headers["content-type"]
    for told in (plain.headers["etag"], packed.headers["etag"]):
        again = client.get(FILE, headers={"if-none-match": told})
        assert (again.status_code, again.content) == (304, b"")


def test_nothing_else_of_the_package_is_served(client: TestClient) -> None:
    for path in ("/widgetbundle.js", "/plotly.py"):
        with pytest.raises(HTTPException):
            client.get(path)


def test_without_plotly_one_sentence(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "plotly_file", lambda: None)
    with pytest.raises(HTTPException, match="plotly is not installed"):
        client.get(FILE)
