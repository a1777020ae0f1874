"""The command line: what it does with good input, and one sentence with exit code 2 for bad input."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from kvxray_backend.cli import COMMANDS, main
from kvxray_backend.commands.demo import engine_command, faults_of
from kvxray_backend.commands.serve import source_argument
from kvxray_backend.doctor import check_gpu, check_triton, cpu_flags, examine
from kvxray_backend.engine_process import EngineProcess
from kvxray_engine.faults.fault import Fault
from websockets.sync.client import connect

from tests.e2e.demo_rig import free_ports


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KVXRAY_") and name != "KVXRAY_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KVXRAY_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def on_ports(ports: list[int]) -> list[str]:
    events, replay, api = map(str, ports)
    return ["--events-port", events, "--replay-port", replay, "--api-port", api]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that must be refused with exit code 2."""
    try:
        code = main(arguments)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    told = capsys.readouterr().err
    assert code == 2, told
    assert told.count("\n") == 1, told
    return told


def test_without_a_command_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out
    for command in ("demo", "serve", "model", "doctor", "bench"):
        assert f"\n    {command} " in told


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_defaults_only_where_there_is_one(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert "default: None" not in " ".join(told.split())
    assert "default: False" not in " ".join(told.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dmeo"], "invalid choice: 'dmeo'"),
        (["demo", "--leek"], "kvxray demo: unrecognized arguments: --leek. Try `kvxray demo --help`"),
        (["demo", "--agents", "0"], "0 is not a positive number"),
        (["demo", "--agents", "many"], "invalid positive value: 'many'"),
        (["demo", "--port", "99999"], "99999 is not a port"),
        (["demo", "--model", "gpt"], "invalid choice: 'gpt'"),
        (["demo", "--events-port", "7000", "--replay-port", "7000"], "ports of their own"),
        (["demo", "--events-port", "0"], "Port 0 needs --engine-only"),
        (["serve", "--source", "demo"], "'demo' is not NAME=EVENTS,REPLAY[,API]"),
        (["serve", "--source", "demo=x,y"], "is not an endpoint such as tcp://127.0.0.1:5570"),
        (["serve", "--host", "0.0.0.0"], "Set KVXRAY_TOKEN"),
        (["serve", "--database", "nonsense"], "KVXRAY_DATABASE_URL"),
        (["model"], "the following arguments are required: ACTION"),
        (["bench", "nothing"], "There is no benchmark 'nothing'"),
    ],
)
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert sentence in refusal(capsys, *arguments)


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str], taken_port: int) -> None:
    assert "choose another with --port" in refusal(capsys, "serve", "--port", str(taken_port))


@pytest.mark.parametrize("option", ["--events-port", "--replay-port", "--api-port"])
def test_an_engine_port_in_use_is_one_sentence(
    capsys: pytest.CaptureFixture[str], taken_port: int, option: str
) -> None:
    ports = {"--events-port": "0", "--replay-port": "0", "--api-port": "0", option: str(taken_port)}
    arguments = [word for pair in ports.items() for word in pair]
    told = refusal(capsys, "demo", "--engine-only", "--model", "tiny", *arguments)
    assert f":{taken_port}: Address already in use. Stop what uses it, or choose another with {option}." in told


def test_a_file_that_is_no_database_is_refused_and_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "letter.db"
    file.write_text("Dear reader, " * 100)
    told = refusal(capsys, "serve", "--port", "0", "--database", f"sqlite:///{file}")
    assert "letter.db" in told
    assert file.read_text() == "Dear reader, " * 100


def test_a_database_of_a_newer_schema_is_refused_and_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "newer.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        database.execute("CREATE TABLE source (id INTEGER)")
    database.close()
    before = file.read_bytes()
    assert "newer" in refusal(capsys, "serve", "--port", "0", "--database", f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_the_demo_starts_nothing_where_a_port_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Or it would follow whoever is there in the place of its own engine, and say that the page can be opened."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
        told = refusal(capsys, "demo", "--model", "tiny", "--port", "0", *on_ports(taken))
    assert told == (
        f"kvxray: Cannot listen on 127.0.0.1:{taken[0]}: Address already in use. Stop what uses it, or choose another "
        "with --events-port.\n"
    )
    assert not (tmp_path / "data").exists()


def test_the_demo_passes_on_the_engine_s_refusal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvxray_backend.cli", "demo", "--model", "tiny", "--port", "0"]
    command += [*on_ports(free_ports(3)), "--agents", "1001"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "The demo has at most 1,000 agents" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_source_may_have_an_api_or_not() -> None:
    assert source_argument("a=tcp://h:1,tcp://h:2") == {"name": "a", "events": "tcp://h:1", "replay": "tcp://h:2"}
    assert source_argument("a=tcp://h:1,tcp://h:2,http://h:3")["api"] == "http://h:3"


def test_the_engine_s_command_says_what_the_demo_was_told() -> None:
    from kvxray_backend.cli import build_parser

    words = ["demo", "--model", "tiny", "--agents", "3", "--leak", "--num-kv-blocks", "99", "--seed", "5",
             "--fault", "lost-messages:rate=0.2",
             "--kv-cache-dtype", "int4", "--device", "cpu"]  # fmt: skip
    options = build_parser().parse_args(words)
    command = engine_command(options)
    again = build_parser().parse_args(command[command.index("demo") :])
    assert again.engine_only
    assert faults_of(again) == faults_of(options) == (Fault("lost-messages", 0.2), Fault("leak-on-abort"))
    kept = (
        "model", "agents", "seed", "events_port", "replay_port", "api_port", "num_kv_blocks", "kv_cache_dtype",
        "device",
    )  # fmt: skip
    assert {name: getattr(again, name) for name in kept} == {name: getattr(options, name) for name in kept}


def test_doctor_looks_at_everything(capsys: pytest.CaptureFixture[str], taken_port: int) -> None:
    code = main(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [
        "Python", "CPU", "Memory", "torch", "GPU", "triton", "Model", "Dashboard", "Database", "Browser", "Ports",
    ]  # fmt: skip
    assert code == 0, told
    assert all(one["sentence"].endswith(".") for one in told.values())


@pytest.mark.parametrize(
    ("major", "triton", "told"),
    [
        (9, True, ["Some GPU, 80 GiB; fp8 caches too.", "; the engine's kernels run on the GPU."]),
        (
            8,
            False,
            ["no fp8 caches: int8 takes little more.", "leaves the GPU alone and runs on the CPU (the extra gpu)."],
        ),
        (None, True, ["the engine runs on the CPU.", "; unused, as there is no GPU."]),
        (None, False, ["the engine runs on the CPU.", "only GPU kernels need it (the extra gpu)."]),
    ],
)
def test_doctor_says_what_the_engine_runs_on(
    monkeypatch: pytest.MonkeyPatch, major: int | None, triton: bool, told: list[str]
) -> None:
    gpu = SimpleNamespace(name="Some GPU", total_memory=80 << 30, major=major, minor=0)
    monkeypatch.setattr("torch.cuda.is_available", lambda: major is not None)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: gpu)
    monkeypatch.setattr("kvxray_backend.doctor._installed", lambda package: triton or package != "triton")
    for check, words in zip((check_gpu(), check_triton()), told, strict=True):
        assert check.sentence.endswith(words)


def test_doctor_names_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVXRAY_DATA_DIR", "/proc/nowhere")
    (database,) = [check for check in examine() if check.name == "Database"]
    assert database.level == "missing"
    assert "set KVXRAY_DATA_DIR" in database.sentence


def test_cpu_features_come_from_the_kernel() -> None:
    assert cpu_flags() == set() or {"fpu", "fp", "sse"} & cpu_flags()


def test_an_engine_that_ends_before_it_is_ready_is_noticed() -> None:
    import threading

    ended = threading.Event()
    engine = EngineProcess([sys.executable, "-c", "import sys; sys.exit(2)"])
    engine.start(on_early_exit=ended.set)
    assert ended.wait(20)
    assert engine.early_exit_code == 2
    engine.stop()


def test_stopping_ends_the_engine() -> None:
    program = "import json, sys, time; print(json.dumps({'ready': True}), flush=True); time.sleep(60)"
    engine = EngineProcess([sys.executable, "-c", program])
    engine.start(on_early_exit=lambda: None)
    engine.stop()
    assert engine.early_exit_code is None


def test_a_server_sends_frames_as_they_are_and_ends_without_a_failure_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvxray_backend.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = server.stderr.readline().split("open ")[1].split()[0]
        assert httpx2.get(f"{url}/api/health", timeout=30).status_code == 200
        with connect(url.replace("http", "ws") + "/api/live") as feed:  # which offers to compress
            agreed = feed.protocol.extensions
        server.terminate()
        assert server.wait(30) == 0
        assert server.stderr.read() == ""
    assert agreed == []


LOST = """
import signal, sys
from kvxray_backend.cli import main
from kvxray_backend.commands.serve import leave
signal.signal(signal.SIGTERM, leave)
class Cleaned:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
cleaned = Cleaned()
del cleaned
print("still here", flush=True)
sys.exit(main(["serve", "--port", "0"]))
"""


def test_an_end_that_was_told_in_a_bad_moment_is_not_forgotten() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "still here\n"
    assert done.returncode == 0


def test_with_its_outputs_closed_it_works_all_the_same() -> None:
    command = f"exec {sys.executable} -m kvxray_backend.cli doctor >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False, timeout=60).returncode == 0


def test_doctor_says_what_is_wrong_with_an_address_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVXRAY_DATABASE_URL", "nonsense")
    (database,) = [check for check in examine() if check.name == "Database"]
    assert database.level == "missing"
    assert "KVXRAY_DATABASE_URL" in database.sentence
