"""The page inside the server: started and stopped with it, told to stay on this machine, absent without harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvxray_backend.page import open_page, page_folder
from kvxray_backend.settings import load_settings

from tests.backend.served import serving

# Streamlit's runtime is one for each process, so the page is served in a process of its own.
SERVED = """
import sys
from pathlib import Path
import kvxray_backend.main as main, kvxray_backend.page as page
from kvxray_backend.settings import load_settings
from fastapi.testclient import TestClient

folder, base = Path(sys.argv[1]), sys.argv[2]
(folder / ".streamlit").mkdir()
options = '[theme]\\nprimaryColor = "#123456"\\n[browser]\\ngatherUsageStats = true\\n'
(folder / ".streamlit" / "config.toml").write_text(options)
(folder / "main.py").write_text("import streamlit as st\\nst.title('hello')\\n")
page.page_folder = lambda: folder
main.page_folder = lambda: folder
app = main.create_app(load_settings(data_dir=folder / "data", base_path=base, token="secret", port=8601))
from streamlit import config
assert config.get_option("browser.gatherUsageStats") is False
assert config.get_option("theme.primaryColor") == "#123456"
with TestClient(app, base_url="http://127.0.0.1:8601") as http:
    assert http.get(f"{base}/").status_code == 401
    http.headers["authorization"] = "Bearer secret"
    document = http.get(f"{base}/overview").text
    assert http.get(f"{base}/").text == document
    assert "<div id=\\"root\\">" in document
    assert f'BACKEND_BASE_URL: location.origin + "{base}/"' in document
    assert http.head(f"{base}/overview").headers["content-length"] == str(len(document.encode()))
    assert http.get(f"{base}/favicon.png").headers["content-type"] == "image/png"
    assert http.get(f"{base}/overview/", follow_redirects=False).headers["location"].endswith("/overview")
    assert http.get(f"{base}/_stcore/health").text == "ok"
    assert http.get(f"{base}/any/page").status_code == 200
    assert http.get(f"{base}/api/nope").json()["error"]
    assert http.get(f"{base}/api/health").json()["status"] == "ok"
    from streamlit.runtime.secrets import secrets_singleton
    assert dict(secrets_singleton["kvxray"]) == {"url": f"http://127.0.0.1:8601{base}", "token": "secret"}
    import os
    assert "secret" not in os.environ.values()
print("served")
"""


def _serve(folder: Path, base: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SERVED, str(folder), base],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


def test_the_page_is_served_behind_the_same_gate(tmp_path: Path) -> None:
    assert _serve(tmp_path, "").strip().startswith("served")


def test_the_page_is_served_under_a_base_path(tmp_path: Path) -> None:
    assert "served" in _serve(tmp_path, "/kv/xray")


def test_a_page_switched_off_is_said_where_it_would_be(tmp_path: Path) -> None:
    assert open_page(load_settings(page=False)) == "The page is switched off (KVXRAY_PAGE); the API is under /api/."
    with serving(tmp_path) as http:
        assert http.get("/").text == "The page is switched off (KVXRAY_PAGE); the API is under /api/."


def test_the_pages_folder_is_found_without_importing_it() -> None:
    was_imported = "kvxray_app" in sys.modules
    folder = page_folder()
    assert folder is not None
    assert folder.name == "kvxray_app"
    assert ("kvxray_app" in sys.modules) == was_imported
