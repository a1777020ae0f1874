"""The dashboard of Grafana: whole, made of what is exported, and each question of it one that Prometheus takes."""

from __future__ import annotations

import json
import re
import subprocess

import yaml
from kvxray_backend.cli import main
from kvxray_backend.exporter.dashboard import all_panels, dashboard, expressions
from kvxray_backend.exporter.metrics import METRICS
from kvxray_backend.exporter.metrics_page import metrics_page

from tests.backend.served import serving
from tests.debian_program import debian_program
from tests.project.test_docs import ROOT

BOARD = dashboard()
PANELS = [*all_panels(BOARD["panels"])]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
WIDTH = 24


def filled_in(expr):
    """As Grafana asks it, with everything chosen."""
    expr = re.sub(r"\$(engine|namespace|pod)\b", ".*", expr)
    return expr.replace("$__rate_interval", "1m")


def test_every_question_is_promql(tmp_path):
    rules = [{"record": f"test:{at}", "expr": filled_in(expr)} for at, expr in enumerate(expressions(BOARD))]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(
        [debian_program("promtool"), "check", "rules", tmp_path / "rules.yml"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout
    assert len(rules) > 200


def test_it_asks_only_for_what_is_exported():
    for expr in expressions(BOARD):
        (asked,) = set(re.findall(r"\b(?:kvxray|process)_[a-z0-9_]+", expr))
        name = re.sub(r"_bucket$", "", asked)
        assert name in METRICS, f"{asked} is not exported"
        assert (METRICS[name].type == "histogram") == ("_bucket" in asked)
    named = {re.sub(r".*\((\w+), .*", r"\1", one.get("definition", "")) for one in BOARD["templating"]["list"]} - {""}
    assert named <= METRICS.keys()


def test_it_is_put_together_as_grafana_has_it():
    assert BOARD["schemaVersion"] >= 38
    assert json.loads(json.dumps(BOARD)) == BOARD
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        assert (panel["type"] == "row") == ("targets" not in panel)
    for panel in GRAPHS:
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_panels_do_not_lie_on_each_other():
    for panels in (
        [one for one in BOARD["panels"] if not one.get("collapsed")],
        *(row.get("panels", []) for row in PANELS),
    ):
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells


def test_every_variable_that_is_used_is_there():
    names = {one["name"] for one in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD))) - {"__all"}
    assert used <= names, used - names
    assert {"datasource", "engine", "namespace", "pod", "kvxray_url"} <= names


def test_every_panel_leads_to_the_moment_here(tmp_path):
    for panel in GRAPHS:
        (link,) = panel["fieldConfig"]["defaults"]["links"]
        assert link["url"].startswith("${kvxray_url}/api/link?go=1&engine=${__field.labels.engine}&at=${__value.time}")
    with serving(tmp_path, public_url="https://kv.example") as http:
        board = http.get("/api/dashboard").json()
    (url,) = [one["query"] for one in board["templating"]["list"] if one["name"] == "kvxray_url"]
    assert url == "https://kv.example"


def test_limits_of_rules_are_lines():
    (used,) = [panel for panel in GRAPHS if panel["targets"][0]["expr"].count("kvxray_used_ratio")]
    steps = used["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert {"color": "orange", "value": 0.9} in steps
    assert [step["value"] for step in steps[1:]] == sorted(step["value"] for step in steps[1:])


def test_the_command_prints_it(capsys):
    assert main(["dashboard", "--url", "https://kv.example/"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard("https://kv.example")


def test_the_page_of_metrics_is_made_of_the_table():
    assert (ROOT / "docs" / "exporter.md").read_text() == metrics_page()
