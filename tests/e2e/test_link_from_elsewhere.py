"""Where a token is set, a link on a page of another site opens the moment for whoever opened kvxray once; nothing else
that such a page does is let in.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.app.browser import PATIENCE_MS
from tests.backend.exporter.listening import listening
from tests.backend.metrics.web import serving, text
from tests.backend.served import source_of
from tests.backend.small_engine import SmallEngine

pytestmark = pytest.mark.browser

TOKEN = "a-token-of-this-test"
POST = """url => fetch(url, {method: "POST", mode: "no-cors", credentials: "include", body: '{"rule":"x","for":"2h"}'})
    .then(() => "sent", () => "refused")"""


def test_a_link_leads_in_and_a_post_does_not(chromium: Browser, tmp_path: Path) -> None:
    with (
        SmallEngine() as engine,
        listening(tmp_path, source_of(engine), token=TOKEN) as kvxray,
        serving(text("", **{"content-type": "text/html"})) as elsewhere,
    ):
        # Another name is another site, whatever the port.
        ours = f"http://localhost:{kvxray.port}"
        link = f"{ours}/api/link?go=1&engine=engine&at=live"
        elsewhere.answer = text(f'<a id="link" href="{link}">the moment</a>', **{"content-type": "text/html"})
        context = chromium.new_context()
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        answers: list[tuple[str, int]] = []
        page.on("response", lambda response: answers.append((response.url, response.status)))

        page.goto(elsewhere.url)
        page.click("#link")
        page.wait_for_url(f"{ours}/**")
        assert answers[-1] == (link, 401), "who never opened kvxray is not let in"

        page.goto(f"{ours}/?token={TOKEN}")
        page.goto(elsewhere.url)
        answers.clear()
        page.click("#link")
        page.wait_for_url(f"{ours}/?source=engine&at=live")
        assert answers[0] == (link, 303)
        assert answers[1][1] != 401, "nor is the page that it leads to refused"

        page.goto(elsewhere.url)
        page.evaluate(POST, f"{ours}/api/mutes")
        assert kvxray.http.get("/api/alerts").json()["mutes"] == []
        context.close()
