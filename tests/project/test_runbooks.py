"""Every built-in rule has a runbook with all its parts, which sends people only to what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kvxray_app.components.overview_panels import FINDINGS_TITLE, FLEET, HEALTH_TITLE, PANELS
from kvxray_backend.alerts.own_rules import FINDING_KINDS
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.alerts.runbooks import RUNBOOKS
from kvxray_backend.metrics.labels import label_of
from kvxray_backend.metrics.ratios import RATIO_TOPICS
from kvxray_backend.metrics.signals import TOPICS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "app" / "kvxray_app"
LIVE = "\n".join(path.read_text() for path in (PAGE / "components").glob("*.js"))
ROWS = {panel.title: [row.label for row in panel.rows] for panel in (*PANELS, FLEET)}
ROWS |= {HEALTH_TITLE: [], FINDINGS_TITLE: []}
SIGNALS = {
    title: [label_of(one.name) for one in (*RATIO_TOPICS.get(title, ()), *signals)] for title, signals in TOPICS.items()
}
PANEL = re.compile(r"\*\*([^*]+)\*\*(?: \(([^)]+)\))?")
RULE_LIKE = re.compile(r"\b(?:KV|SGLang|HiCache|Offload|Router|Stream|Replay|Events)[A-Z][a-z]+[A-Za-z]*")
ENGINES_OWN = {"OffloadingConnector"}
LANGUAGE_OF_CODE = re.compile(r"`[^`]*`")


def texts(name: str) -> list[str]:
    book = RUNBOOKS[name]
    return [book.meaning, *book.confirm, *book.on_vllm, *book.on_sglang]


def test_every_rule_has_a_runbook_and_every_runbook_a_rule() -> None:
    assert set(RUNBOOKS) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_runbook_has_all_its_parts(name: str) -> None:
    book = RUNBOOKS[name]
    assert book.meaning
    assert len(book.confirm) >= 2, "where to look in kvxray"
    assert book.on_vllm, "what to do on vLLM, or why it cannot concern it"
    assert book.on_sglang, "what to do on SGLang, or why it cannot concern it"
    assert RULES[name].trap
    assert all(text.endswith((".", "?", ")")) for text in texts(name))


@pytest.mark.parametrize("name", RULES)
def test_a_runbook_sends_nobody_to_a_panel_that_is_not_there(name: str) -> None:
    for text in texts(name):
        for panel, within in PANEL.findall(text):
            labels = SIGNALS.get(panel, ROWS.get(panel))
            assert labels is not None or f'"{panel}"' in LIVE, f"no page has a panel called {panel}"
            wanted = within.split("; ") if within and labels else []
            wanted = [one.split(",")[0] for one in wanted if one[0].isupper()]
            lacking = [one for one in wanted if not any(label.startswith(one) for label in labels or [])]
            assert not lacking, f"{panel} has no {lacking}"


@pytest.mark.parametrize("name", RULES)
def test_rules_and_findings_that_a_runbook_names_exist(name: str) -> None:
    for text in texts(name):
        named = set(RULE_LIKE.findall(LANGUAGE_OF_CODE.sub("", text))) - ENGINES_OWN
        assert named <= set(RULES), f"{named - set(RULES)} is no rule"
        for kind in re.findall(r"(?:finding|Findings:) `([a-z_]+)`", text):
            assert kind in FINDING_KINDS


def test_a_step_is_short_enough_to_be_read_at_night() -> None:
    assert [text for name in RULES for text in texts(name) if len(text) > 330] == []
