"""Files that name engines, and lists of targets: what they mean, and one sentence for all that they cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kvxray_backend.observed.engines_file import entries_of, read_file, targets_in
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.target_list import TargetList
from kvxray_engine.errors import UserError

FILE = Path("/etc/kvxray/engines.yaml")
ENGINE = "{name: a, events: 'tcp://h:1'}"


def refused(text: bytes | str, path: Path = FILE) -> str:
    with pytest.raises(UserError) as refusal:
        entries_of(path, text.encode() if isinstance(text, str) else text)
    told = str(refusal.value)
    beginning = f"Mend the file {path}: "
    assert told.startswith(beginning)
    return told.removeprefix(beginning)


def test_engines_and_lists_of_targets_beside_the_file():
    text = b"""
    engines:
      - name: east
        make: sglang
        events: tcp://h:5557
        labels: {dp_rank: 0, pod: a}
      - file_sd: targets.json
        events_port: 5557
    """
    east, targets = entries_of(FILE, text)
    assert east == ObserveSpec(name="east", make="sglang", events="tcp://h:5557", labels={"dp_rank": "0", "pod": "a"})
    assert targets == TargetList(file_sd="/etc/kvxray/targets.json", events_port=5557)


@pytest.mark.parametrize("text", [b"", b"engines:", b"engines: []", b"[]", b"# nothing yet\n"])
def test_a_file_without_engines_asks_for_none(text):
    assert entries_of(FILE, text) == []


def test_json_is_json_with_tabs_and_all():
    path = FILE.with_suffix(".json")
    [engine] = entries_of(path, b'\xef\xbb\xbf[\n\t{"name": "a", "events": "tcp://h:1"}\n]')
    assert engine.name == "a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff\xfe", "it is no text: byte 0 is not UTF-8."),
        (b"a\0b", "it is no YAML: unacceptable character"),
        ("engines: [", "it is no YAML: "),
        ("engines:\n\t- x", "it is no YAML: found character that cannot start any token (line 2)."),
        ("--- a\n--- b", "it is no YAML: "),
        ("engines: {a: 1}", "what it holds is engines, a list."),
        ("just words", "what it holds is engines, a list."),
        ("servers: []", "there is no 'servers': what it holds is engines, a list."),
        ("engines: [3]", "entry 1: an engine is described by names and values, as in docs/attach.md."),
        ("- {name: a}", "engine 'a': nothing of a could be seen: say where its events are, or its metrics, or both."),
        ("- {events: 'tcp://h:1'}", "entry 1: mend name: it is missing."),
        ("- {name: a, event: 'tcp://h:1'}", "engine 'a': mend event: there is no such field."),
        (f"- {ENGINE}\n- {ENGINE}", "two engines are called 'a'; give each a name of its own."),
        ("engines: []\nengines: []", "it says 'engines' twice (line 2)."),
        ("- {name: a, name: b}", "it says 'name' twice (line 1)."),
        ("- &x {name: a}\n- *x", "it uses an alias (line 2); write out what it stands for."),
        ("[" * 40, "it is nested deeper than 16 levels (line 1)."),
        ("- !!python/object/apply:os.system [ls]", "it is no YAML: could not determine a constructor"),
        (
            "- {name: a, events: 'tcp://h:1',\n   labels: {day: 2026-13-45}}",
            "it is no YAML: '2026-13-45' is no timestamp that can be read (line 2).",
        ),
        ("- !!timestamp soon", "it is no YAML: 'soon' is no timestamp that can be read (line 1)."),
        ("- !!bool maybe", "it is no YAML: 'maybe' is no bool that can be read (line 1)."),
        ("- {ranks: !!int many}", "it is no YAML: 'many' is no int that can be read (line 1)."),
        ("- {ranks: !!int ''}", "it is no YAML: '' is no int that can be read (line 1)."),
        ("- {ranks: 0b_}", "it is no YAML: '0b_' is no int that can be read (line 1)."),
        ("- {ranks: !!float few}", "it is no YAML: 'few' is no float that can be read (line 1)."),
        (f"- {'9' * 5_000}", f"it is no YAML: '{'9' * 80}' is no int that can be read (line 1)."),
        ("- {? [1, 2] : 3}", "it is no YAML: found unhashable key"),
        ("- {name: a, events: 5}", "engine 'a': mend events: input should be a valid string."),
        ("- {name: a, events: 'tcp://h:1', labels: {sleeps: no}}", "engine 'a': mend labels.sleeps: "),
        ("- {file_sd: t, events_port: x}", "entry 1: mend events_port: "),
        ("x" * (512 * 1024 + 1), "it is larger than 512 KiB."),
        ("- 1\n" * 1025, "it has more than 1,024 entries."),
    ],
)
def test_whatever_else_it_may_be_is_one_sentence(text, reason):
    told = refused(text)
    assert told.startswith(reason)
    assert "\n" not in told


def test_many_aliases_of_aliases_are_refused_before_anything_is_made_of_them():
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert refused(text) == "it uses an alias (line 2); write out what it stands for."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[1", "it is no JSON: expecting ',' delimiter (line 1)."),
        (b'{"engines": [], "engines": []}', "it says 'engines' twice."),
        (b"[" * 100_000, "it is nested deeper than 16 levels."),
        (
            b'[{"name": "a", "ranks": ' + b"1" * 5_000 + b"}]",
            "it is no JSON that can be read: a number in it is too long.",
        ),
    ],
)
def test_bad_json(text, reason):
    assert refused(text, FILE.with_suffix(".json")) == reason


def test_what_is_no_file_is_not_read(tmp_path):
    with pytest.raises(UserError, match="is no file"):
        read_file(tmp_path)
    with pytest.raises(UserError, match="is not there"):
        read_file(tmp_path / "nowhere")
    with pytest.raises(UserError, match="cannot be read|is not there"):
        read_file(Path("a\0b"))


TARGETS = TargetList(file_sd="targets.json", make="sglang", events_port=5557, replay_port=5558, labels={"zone": "z"})


def engines(*groups, targets=TARGETS):
    return targets_in(targets, json.dumps(groups).encode())


def test_a_target_becomes_an_engine_whose_events_are_at_the_same_host():
    [one] = engines({"targets": ["10.0.0.7:30000"], "labels": {"model": "m", "__meta_kubernetes_pod_uid": "u"}})
    assert one == ObserveSpec(
        name="10.0.0.7-30000", make="sglang", metrics="http://10.0.0.7:30000/metrics", events="tcp://10.0.0.7:5557",
        replay="tcp://10.0.0.7:5558", labels={"zone": "z", "model": "m"},
    )  # fmt: skip


def test_labels_of_prometheus_and_ours_say_where_and_what_it_is():
    labels = {
        "__scheme__": "https", "__metrics_path__": "/m", "__address__": "real:1", "kvxray_name": "east",
        "kvxray_make": "vllm", "kvxray_events_port": "7", "kvxray_ranks": "2", "pod": "p",
    }  # fmt: skip
    [one] = engines({"targets": ["listed:1"], "labels": labels})
    assert (one.name, one.make, one.metrics, one.events, one.ranks) == (
        "east", "vllm", "https://real:1/m", "tcp://real:7", 2,
    )  # fmt: skip
    assert one.labels == {"zone": "z", "pod": "p"}


def test_one_that_only_decodes_has_no_events_to_dial():
    [one] = engines({"targets": ["h:1"], "labels": {"kvxray_role": "decode", "pod": "p"}})
    assert (one.events, one.replay, one.role, one.name) == (None, None, "decode", "p")


def test_addresses_of_both_kinds_and_names_that_are_long_stay_the_same_names():
    listed = ["[fd00::1]:8000", "h", *(f"{letter * 40}.{letter * 40}:1" for letter in "xy")]
    names = [one.name for one in engines({"targets": listed})]
    assert names[:2] == ["fd00-1-8000", "h"]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 63
    assert [one.name for one in engines({"targets": listed})] == names
    assert engines({"targets": listed})[0].events == "tcp://[fd00::1]:5557"


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (b"{}", "a list of targets is a list of groups, each with targets and labels."),
        (b'[{"targets": "h:1"}]', "each group has targets, a list of host:port, and may have labels."),
        (b'[{"targets": [1]}]', "targets are texts such as host:port, labels are names with values."),
        (b'[{"targets": ["h:1", "h:1"]}]', "two engines are called 'h-1'; give each a name of its own."),
        (b'[{"targets": ["h:1"], "labels": {"kvxray_events_port": "x"}}]', "mend events: 'tcp://h:x' is no endpoint"),
        (b'[{"targets": ["h:1"], "labels": {"kvxray_make": "x"}}]', "mend make: "),
        (b'[{"targets": ["u:p@h:1"]}]', "mend "),
        (json.dumps([{"targets": [f"h:{n}" for n in range(1025)]}]).encode(), "there are more than 1,024 targets."),
    ],
)
def test_a_bad_list_is_one_sentence(groups, reason):
    with pytest.raises(UserError) as refusal:
        targets_in(TARGETS, groups)
    assert str(refusal.value).startswith(f"Mend the file targets.json: {reason}")
