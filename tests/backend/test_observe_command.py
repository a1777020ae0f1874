"""`kvxray observe`: engines as they are typed, and the page with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from kvxray_backend.cli import build_parser, main
from kvxray_backend.commands.observe import MAKES
from kvxray_backend.observed.typed_engines import typed_engines

from tests.backend.foreign.engine_rig import EngineRig
from tests.e2e.demo_rig import free_ports


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KVXRAY_") and name != "KVXRAY_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KVXRAY_DATA_DIR", str(tmp_path / "data"))
    # The usual one may be somebody's.
    monkeypatch.setenv("KVXRAY_PORT", str(free_ports(1)[0]))


def typed(line: str) -> list[dict[str, object]]:
    """What is not usual of each engine."""
    options = build_parser().parse_args(["observe", *line.split()])
    return [entry.model_dump(exclude_defaults=True) for entry in typed_engines(options.told, MAKES)]


def test_an_engine_with_everything_that_follows_it() -> None:
    line = (
        "--vllm tcp://host:5557 --replay tcp://host:5558 --metrics http://host:8000/metrics --ranks 2 --topic kv "
        "--label pod=a --label model=m=1 --every 10 --num-blocks 100 --store-semantics copies"
    )
    assert typed(line) == [
        {
            "name": "host", "events": "tcp://host:5557", "replay": "tcp://host:5558", "ranks": 2, "topic": "kv",
            "metrics": "http://host:8000/metrics", "labels": {"pod": "a", "model": "m=1"}, "every_s": 10.0,
            "num_blocks": 100, "store_semantics": "copies",
        }
    ]  # fmt: skip


def test_what_follows_a_make_is_about_it_and_what_stands_before_all_about_the_first() -> None:
    assert typed("--name a --vllm tcp://x:1 --bind --sglang tcp://y:2 --role decode --router --metrics http://r/m") == [
        {"name": "a", "events": "tcp://x:1", "bind": True},
        {"name": "y", "make": "sglang", "events": "tcp://y:2", "role": "decode"},
        {"name": "r", "make": "router", "metrics": "http://r/m"},
    ]


def test_engines_without_a_name_are_called_by_host_port_and_make_the_same_each_time() -> None:
    line = (
        "--vllm tcp://h:1 --vllm tcp://h:2 --vllm tcp://h:2 --vllm tcp://127.0.0.1:1 --sglang tcp://*:7 --name vllm-2"
    )
    names = [one["name"] for one in typed(line)]
    assert names == ["h", "h-2", "h-3", "vllm", "vllm-2"]
    assert [one["name"] for one in typed(line)] == names


def test_many_by_a_list_of_targets_or_by_a_name() -> None:
    assert typed("--sglang --file-sd t.json --events-port 5557 --vllm tcp://svc:1 --dns") == [
        {"file_sd": "t.json", "make": "sglang", "events_port": 5557},
        {"name": "svc", "events": "tcp://svc:1", "expand": "dns"},
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "Name an engine to watch, such as --vllm tcp://host:5557, or --config FILE with some."),
        ("--vllm host:5557", "Mend events: 'host:5557' is no endpoint of a socket."),
        ("--vllm tcp://h:1 --metrics http://a/ --metrics http://b/", "--metrics is given twice for one engine"),
        ("--vllm tcp://h:1 --file-sd t.json", "--file-sd names its engines itself"),
        ("--vllm tcp://h:1 --name a --sglang tcp://h:2 --name a", "Give every engine a name of its own"),
        ("--name a --vllm", "Nothing of a could be seen"),
        ("--vllm tcp://h:1 --label pod", "argument --label: 'pod' is not LABEL=VALUE."),
        ("--vllm tcp://h:1 --ranks x", "argument --ranks: invalid int value: 'x'."),
        ("--vllm http://h/kv", "Only TensorRT-LLM is asked for its events over HTTP"),
        ("--vllm --file-sd nowhere.json", "The file nowhere.json is not there."),
        ("--config nowhere.yaml", "The file nowhere.yaml is not there."),
        ("--prometheus http://p:9090 --name a", "Say with match which engine of that Prometheus is meant"),
    ],
)
def test_mistakes_are_one_sentence(capsys: pytest.CaptureFixture[str], line: str, sentence: str) -> None:
    try:
        code = main(["observe", *line.split()])
    except SystemExit as leaving:
        code = leaving.code
    told = capsys.readouterr().err
    assert code == 2, told
    assert sentence in told
    assert told.count("\n") == 1, told


def test_it_serves_an_engine_that_publishes_and_ends_well(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with EngineRig() as rig:
        command = [sys.executable, "-m", "kvxray_backend.cli", "observe", "--vllm", rig.events, "--name", "east"]
        command += ["--port", str(port), "--database", f"sqlite:///{tmp_path}/kvxray.db"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "KVXRAY_PAGE": "0"})
        try:
            rig.wait_for_subscriber()
            rig.publish(3)
            wait_until_listed(port, "east")
        finally:
            process.send_signal(signal.SIGTERM)
            told = process.communicate(timeout=60)[1]
    assert process.returncode == 0, told
    assert told.splitlines()[:2] == [
        f"kvxray observe: watching east at {rig.events}",
        f"kvxray observe: open http://127.0.0.1:{port} in a browser (stop with Ctrl-C)",
    ]
    assert "Traceback" not in told


def test_serve_takes_a_file_of_engines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "engines.json"
    file.write_text(json.dumps([{"name": "east"}]))
    assert main(["serve", "--observe", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"kvxray: Mend the file {file}: engine 'east': nothing of east could be")


def wait_until_listed(port: int, name: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            answer = httpx2.get(f"http://127.0.0.1:{port}/api/engines", timeout=5)
        except httpx2.HTTPError:
            time.sleep(0.1)
            continue
        if any(engine["name"] == name for engine in answer.json()["engines"]):
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} was not listed")
