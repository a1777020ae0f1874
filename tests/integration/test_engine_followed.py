"""The dashboard's backend follows `kvxray engine`: its blocks, its requests, and what they are writing."""

from pathlib import Path

import pytest

from tests.backend.served import serving, until
from tests.engine.engine_process import Process


@pytest.mark.parametrize("token", ["", "secret"])
def test_a_request_over_http_shows_on_the_dashboard(tmp_path: Path, token: str) -> None:
    options = ["--model", "tiny", "--num-kv-blocks", "65", *(["--api-key", token] if token else [])]
    with Process(*options) as engine, engine.client(token or "none") as client:
        source = {"name": "engine", **{key: engine.ready[key] for key in ("events", "replay", "api")}}
        with serving(tmp_path, source, token=token) as http:
            if token:
                http.headers["authorization"] = f"Bearer {token}"
            until(lambda: http.get("/api/state").status_code == 200)
            answer = client.completions.create(model="tiny", prompt="Seen " * 10, max_tokens=20, temperature=0)
            row = until(lambda: row_of(http.get("/api/requests").json(), answer.id))
            assert (row["prompt_tokens"], row["output_tokens"]) == (50, 20)
            told = http.get(f"/api/requests/{answer.id}/text").json()
            assert told == {"request_id": answer.id, "text": answer.choices[0].text, "finished": True}
            state = http.get("/api/state").json()
            assert state["usable_blocks"] == 64
            assert state["counts"]["cached"]["value"] == (50 + 19) // 16


def row_of(requests: dict, request_id: str) -> dict | None:
    """The request, once it has finished."""
    rows = [row for row in requests["requests"] if row["request_id"] == request_id]
    return rows[0] if rows and rows[0]["status"] == "finished" else None
