"""A real vLLM server: one that runs already, or one of our own whose interpreter is named; both on this machine.

KVXRAY_VLLM_PYTHON    interpreter with vLLM (a CPU build will do): servers are started and stopped as tests need
KVXRAY_VLLM_SERVER    address of one that runs with the options of `OPTIONS`, instead; it is never stopped
KVXRAY_VLLM_EVENTS    where that one dials with its events; where it answers replay is KVXRAY_VLLM_REPLAY
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

MAKE_MODEL: Final = Path(__file__).with_name("make_model.py")
NUM_BLOCKS: Final = 24
BLOCK_SIZE: Final = 32
"""A multiple of 32, as the attention on CPUs wants it."""
START_S: Final = 900.0
STOP_S: Final = 60.0
OPTIONS: Final = (
    *("--served-model-name", "tiny", "--host", "127.0.0.1", "--dtype", "bfloat16", "--max-model-len", "512"),
    *("--enforce-eager", "--block-size", str(BLOCK_SIZE), "--num-gpu-blocks-override", str(NUM_BLOCKS)),
    *("--max-num-seqs", "8"),
)
ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_HOST_IP": "127.0.0.1", "VLLM_SERVER_DEV_MODE": "1",
    "PYTHONHASHSEED": "0",
}  # fmt: skip
WHY_SKIPPED: Final = (
    "No vLLM is named: set KVXRAY_VLLM_PYTHON to an interpreter that has it, or KVXRAY_VLLM_SERVER to a server."
)


@dataclass(frozen=True, slots=True)
class VllmServer:
    """`events`: where it dials; whoever listens binds there. `replay`: where it answers."""

    address: str
    events: str
    replay: str

    @property
    def metrics(self) -> str:
        return f"{self.address}/metrics"

    def complete(self, prompt: str, max_tokens: int = 1) -> None:
        asked = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0}
        httpx2.post(f"{self.address}/v1/completions", json=asked, timeout=120).raise_for_status()

    def reset(self) -> None:
        httpx2.post(f"{self.address}/reset_prefix_cache", timeout=60).raise_for_status()

    def told(self, name: str) -> float:
        """The sum of one metric over its series, as the server says it now."""
        lines = httpx2.get(self.metrics, timeout=60).text.splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} "))]
        assert values, f"the server tells no {name}"
        return sum(values)

    def label(self, name: str, label: str) -> str:
        """A label of a metric that tells by its labels."""
        line = next(
            one for one in httpx2.get(self.metrics, timeout=60).text.splitlines() if one.startswith(f"{name}{{")
        )
        return line.partition(f'{label}="')[2].partition('"')[0]


def running_server() -> VllmServer | None:
    """One that somebody else started."""
    address = os.environ.get("KVXRAY_VLLM_SERVER")
    if not address:
        return None
    events = os.environ.get("KVXRAY_VLLM_EVENTS", "tcp://127.0.0.1:25557")
    return VllmServer(address, events, os.environ.get("KVXRAY_VLLM_REPLAY", "tcp://127.0.0.1:25558"))


def server_at(ports: tuple[int, int, int]) -> VllmServer:
    """ports: of its API, events and replay."""
    api, events, replay = ports
    return VllmServer(f"http://127.0.0.1:{api}", f"tcp://127.0.0.1:{events}", f"tcp://127.0.0.1:{replay}")


def interpreter() -> str | None:
    return os.environ.get("KVXRAY_VLLM_PYTHON") or None


def make_model(python: str, folder: Path) -> Path:
    subprocess.run([python, str(MAKE_MODEL), str(folder)], env=_environment(), check=True, timeout=300)
    return folder


@contextmanager
def started(python: str, model: Path, log: Path, ports: tuple[int, int, int]) -> Iterator[VllmServer]:
    """A server of our own until the end; it is up when this yields."""
    server = server_at(ports)
    told = {
        "enable_kv_cache_events": True, "publisher": "zmq", "endpoint": server.events,
        "replay_endpoint": server.replay, "topic": "kv@tiny",
    }  # fmt: skip
    command = [
        python,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(model),
        "--port",
        str(ports[0]),
        *OPTIONS,
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--kv-events-config", json.dumps(told)], env=_environment(), stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            _wait_until_up(process, server, log)
            yield server
        finally:
            _stop(process)


def _wait_until_up(process: subprocess.Popen[bytes], server: VllmServer, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"vLLM ended by itself; its log is {log}"
        try:
            if httpx2.get(f"{server.address}/health", timeout=5).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(1)
    raise AssertionError(f"vLLM was not up after {START_S:.0f} s; its log is {log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """With the processes that it started, which are in its group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_S)


def _environment() -> dict[str, str]:
    return {**os.environ, **ENVIRONMENT}
