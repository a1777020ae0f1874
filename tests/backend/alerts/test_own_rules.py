"""Rules of one's own: what they may say, and the line and field of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_backend.alerts.own_rules import FINDING_KINDS, rules_in
from kvxray_backend.alerts.prometheus_rules import rule_file
from kvxray_backend.alerts.rule_pages import index_page, pages
from kvxray_backend.cli import main
from kvxray_engine.errors import UserError

from tests.backend.alerts.promtool import run_promtool

ROOT = Path(__file__).parents[3]
GOOD = """rules:
- name: HostTierFull
  for: 10m
  sentence: The host's tier is full.
  when:
  - {now: kv_usage_host, above: 0.95, clear: 0.9}
  - any:
    - {lowest: requests_waiting, over: 5m, above: 0}
    - {grown: prefix_hits, by: prefix_queries, over: 30m, below: 0.2, more_than: 5e4}
"""


def example():
    return re.search(r"```yaml\n(.*?)```", index_page(), re.S)[1]


def test_the_pages_are_those_of_the_table():
    folder = ROOT / "docs" / "rules"
    assert {path.name: path.read_text() for path in folder.iterdir()} == pages()


def test_the_example_of_the_pages_is_a_rule():
    (rule,) = rules_in(example().encode())
    assert (rule.name, rule.severity, rule.for_s, rule.keep_firing_s) == ("HostTierFull", "warning", 600, 300)
    assert not rule.is_of_metrics


def test_promtool_takes_rules_of_ones_own(tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text(rule_file(rules_in(GOOD.encode())))
    assert {group["name"] for group in yaml.safe_load(path.read_text())["groups"]} == {"kvxray.vllm", "kvxray.trtllm"}
    checked = run_promtool("check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


BAD = [
    (changed("for: 10m", "for: 10x"), 3, "HostTierFull, for", "'10x' is no time such as 30s, 10m or 1h."),
    (changed("for: 10m", "for: 9d"), 3, "HostTierFull, for", "'9d' is not from 0 to 604,800 seconds."),
    (changed("for:", "fro:"), 3, "HostTierFull, fro", "there is no such field; did you mean for."),
    (
        changed("kv_usage_host", "kv_usage_hots"),
        6,
        "HostTierFull, when 1, now",
        "there is no 'kv_usage_hots'; did you mean kv_usage_host.",
    ),
    (changed("0.95", "high"), 6, "HostTierFull, when 1, above", "'high' is no number."),
    (changed("0.95", ".inf"), 6, "HostTierFull, when 1, above", "'.inf' is no number."),
    (
        changed("clear: 0.9", "clear: 0.97"),
        6,
        "HostTierFull, when 1, clear",
        "it lies beyond above; it is where a rule that fires ends, so on the other side.",
    ),
    (changed(", above: 0.95, clear: 0.9", ""), 6, "HostTierFull, when 1", "it needs one of above, below, equals."),
    (changed("over: 5m, ", ""), 8, "HostTierFull, when 2, any 1, lowest", "it lacks over, such as over: 10m."),
    (
        changed("lowest: requests_waiting", "lowest: preemptions"),
        8,
        "HostTierFull, when 2, any 1, lowest",
        "preemptions is a counter; now, lowest and highest ask for gauges.",
    ),
    (
        changed("by: prefix_queries", "by: kv_usage"),
        9,
        "HostTierFull, when 2, any 2, by",
        "kv_usage is a gauge; grown asks for what is counted.",
    ),
    (
        changed("now: kv_usage_host", "now: kv_usage_host, part: x"),
        6,
        "HostTierFull, when 1, part",
        "kv_usage_host is not told by parts.",
    ),
    (
        changed("now: kv_usage_host", "now: kv_usage_host, over: 5m"),
        6,
        "HostTierFull, when 1, over",
        "now knows no over.",
    ),
    (
        changed("{now: kv_usage_host, above: 0.95, clear: 0.9}", "{finding: seq_gop}"),
        6,
        "HostTierFull, when 1, finding",
        "there is no 'seq_gop'; did you mean seq_gap.",
    ),
    (
        changed("requests_waiting", "kv_usage_mamba"),
        6,
        "HostTierFull, when",
        "no make tells all of kv_usage_host, kv_usage_mamba, prefix_hits, prefix_queries.",
    ),
    (changed("HostTierFull", "KVStarved"), 2, "KVStarved", "KVStarved is the name of a built-in rule."),
    (
        changed("HostTierFull", "Host tier"),
        2,
        "rule 1, name",
        "a name is up to 64 letters, digits and underscores, a letter first.",
    ),
    (changed("  sentence: The host's tier is full.\n", ""), 2, "HostTierFull", "it lacks sentence."),
    ("rules: 5", 1, "rules", "it is no list."),
    ("- 5", 1, "at the top", "it is no list of names and values."),
    ("rules: [5]", 1, "rule 1", "it is no list of names and values."),
    ("a: &a [1]\nrules: *a", 0, "", "It uses an alias (line 2); write out what it stands for."),
]


@pytest.mark.parametrize(("text", "line", "field", "sentence"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_what_is_wrong_is_told_with_line_and_field(text, line, field, sentence):
    with pytest.raises(UserError) as told:
        rules_in(text.encode())
    assert str(told.value) == (f"line {line}, {field}: {sentence}" if line else sentence)


def test_a_name_is_one_rules():
    with pytest.raises(UserError, match=r"line 10, HostTierFull: HostTierFull is the name of another rule"):
        rules_in((GOOD + GOOD.removeprefix("rules:\n")).encode())


def test_all_that_is_wrong_is_told_together_each_by_the_name_of_its_rule():
    text = changed("for: 10m", "for: 10x\n  severty: info").replace("0.95", "high").replace("over: 5m, ", "")
    text += "- name: Second\n  when: [{finding: leek}, {now: kv_usage, above: 1, below: 2}]\n- 5\n"
    with pytest.raises(UserError) as told:
        rules_in(text.encode())
    assert str(told.value) == (
        "line 3, HostTierFull, for: '10x' is no time such as 30s, 10m or 1h. "
        "Line 4, HostTierFull, severty: there is no such field; did you mean severity. "
        "Line 7, HostTierFull, when 1, above: 'high' is no number. "
        "Line 9, HostTierFull, when 2, any 1, lowest: it lacks over, such as over: 10m. "
        "Line 11, Second: it lacks sentence. "
        "Line 12, Second, when 1, finding: there is no 'leek'; did you mean leak. "
        "Line 12, Second, when 2: it needs one of above, below, equals. "
        "Line 13, rule 3: it is no list of names and values."
    )


def test_of_many_faults_ten_are_told_and_all_are_counted():
    text = "rules:\n" + "".join(f"- {{name: R{n}, sentence: x, when: [{{finding: x}}]}}\n" for n in range(25))
    with pytest.raises(UserError) as told:
        rules_in(text.encode())
    assert str(told.value).count("there is no 'x'") == 10
    assert str(told.value).endswith(" And 15 more.")


@settings(deadline=None)
@given(st.integers(0, len(GOOD)), st.sampled_from([*"{}[]:-,#&*!|>'\"%@`\n\t0.", "\x00", "é"]), st.integers(0, 8))
def test_any_text_is_rules_or_one_sentence(at, text, num):
    try:
        rules_in((GOOD[:at] + text + GOOD[at + num :]).encode())
    except UserError as error:
        assert "\n" not in str(error)


def test_the_command_tells_what_each_asks_for(tmp_path, capsys):
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    assert main(["alerts", "check", str(path)]) == 0
    assert capsys.readouterr().out == (
        "HostTierFull: warning, once it held for 10m; needs metrics of vLLM, TensorRT-LLM; when `kv_usage_host` is "
        "above 0.95 (while it fires: 0.9); and (the lowest `requests_waiting` of 5m is above 0 or (`prefix_hits` in "
        "30m ÷ `prefix_queries` in 30m, where that is more than 50,000) is below 0.2).\n"
    )


def test_the_command_names_file_line_and_field(tmp_path, capsys):
    path = tmp_path / "own.yaml"
    path.write_text(changed("for: 10m", "for: long"))
    assert main(["alerts", "check", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"kvxray: Mend the file {path}: line 3, HostTierFull, for: 'long' is no time such as 30s, 10m or 1h.\n"
    )
    assert main(["alerts", "check", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err == f"kvxray: The file {tmp_path / 'none.yaml'} is not there.\n"


def test_the_command_prints_the_rules_of_a_make_and_those_of_a_file(tmp_path, capsys):
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    assert main(["alerts", "rules", "--make", "vllm", "--own", str(path)]) == 0
    groups = yaml.safe_load(capsys.readouterr().out)["groups"]
    assert [group["name"] for group in groups] == ["kvxray.vllm.record", "kvxray.vllm"]
    assert "HostTierFull" in [rule["alert"] for rule in groups[1]["rules"]]


def test_of_several_files_all_that_is_wrong_is_told(tmp_path, capsys):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(changed("for: 10m", "for: long"))
    second.write_text("rules: 5")
    assert main(["alerts", "check", str(first), str(second)]) == 2
    assert capsys.readouterr().err == (
        f"kvxray: Mend the file {first}: line 3, HostTierFull, for: 'long' is no time such as 30s, 10m or 1h. "
        f"Mend the file {second}: line 1, rules: it is no list.\n"
    )


def test_the_same_file_twice_is_told(tmp_path, capsys):
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    assert main(["alerts", "check", str(path), str(path)]) == 2
    assert "HostTierFull is the name of a rule in" in capsys.readouterr().err


def test_every_kind_of_finding_can_be_asked_for():
    told = (ROOT / "docs" / "events.md").read_text().partition("| `leak` |")
    assert set(re.findall(r"^\| `([a-z_]+)` \|", told[1] + told[2], re.M)) == set(FINDING_KINDS)
