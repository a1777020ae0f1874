"""What docker-compose.yml runs, run by hand: the same commands and variables, against a real PostgreSQL.

Only what a container's own network would keep apart is changed: host names and port numbers.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import psycopg
import pytest

from tests.compose_file import RAW, fill_in
from tests.postgres_server import PASSWORD

TOKEN = "a-token-of-the-tests"
WAIT_S = 120.0
VALUES = {"KVXRAY_TOKEN": TOKEN, "KVXRAY_POSTGRES_PASSWORD": PASSWORD, "KVXRAY_MODEL": "tiny"}
SERVICES = fill_in(RAW, VALUES)["services"]
# What the image of each has not installed.
ABSENT = {
    "backend": ["torch", "tokenizers", "safetensors", "gguf", "triton"],
    "engine": ["sqlalchemy", "alembic", "psycopg", "streamlit", "plotly", "pydantic_settings", "httpx2", "triton"],
}
KVXRAY = """
import sys
sys.modules.update(dict.fromkeys({absent}))
from kvxray_backend.cli import main
sys.exit(main())
"""
PROMPT = {"model": "tiny", "prompt": "What is in the cache?", "max_tokens": 40, "temperature": 0}


@pytest.fixture(scope="module")
def ports():
    """Free ones for those in the file."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    free = [str(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return dict(zip(("8501", "8000", "5570", "5571"), free, strict=True))


def here(text, ports, server):
    """A word of the file as it is on this machine."""
    for inside, free in ports.items():
        text = text.replace(f":{inside}", f":{free}")
    return text.replace("@postgres:5432/", f"@127.0.0.1:{server.port}/")


def environment(service, ports, server):
    """What the container would have, and nothing of ours that it would not."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KVXRAY_", "PG"))}
    given = SERVICES[service]["environment"]
    return inherited | {name: here(value, ports, server) for name, value in given.items()}


def start(service, ports, server, folder, *more, **extra):
    words = [here(word, ports, server) for word in SERVICES[service]["command"]]
    command = [sys.executable, "-c", KVXRAY.format(absent=ABSENT[service]), *words, *more]
    with (folder / f"{service}.log").open("w") as log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
            env=environment(service, ports, server) | extra,
        )  # fmt: skip


def is_healthy(service, ports, server, **extra):
    """The service's own check."""
    _, program, *words = SERVICES[service]["healthcheck"]["test"]
    command = [sys.executable if program == "python" else server.programs / program]
    done = subprocess.run(
        [*command, *(here(word, ports, server) for word in words)],
        env=environment(service, ports, server) | extra, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0


def until(condition):
    by = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < by, "it did not come about"
        time.sleep(0.2)
    return found


def ask(address, body=None, token=TOKEN):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=30) as answer:
        return answer.read()


def end(process):
    """As `docker compose stop` does."""
    process.send_signal(signal.SIGTERM)
    return process.wait(30)


@pytest.fixture(scope="module")
def running(postgres_server, reused_postgres_url, ports, tmp_path_factory):
    """PostgreSQL, then the backend, then the engine: each when the one before is healthy."""
    folder = tmp_path_factory.mktemp("compose")
    postgres_server.empty_database("kvxray")
    where = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres_server.port)}
    assert is_healthy("postgres", ports, postgres_server, **where)
    processes = []
    try:
        processes.append(start("backend", ports, postgres_server, folder, KVXRAY_PORT=ports["8501"]))
        until(lambda: is_healthy("backend", ports, postgres_server))
        elsewhere = ("--port", ports["8000"], "--events-port", ports["5570"], "--replay-port", ports["5571"])
        cache = str(folder / "models")
        processes.append(start("engine", ports, postgres_server, folder, *elsewhere, KVXRAY_CACHE_DIR=cache))
        until(lambda: is_healthy("engine", ports, postgres_server))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_the_commands_serve_together_and_the_events_are_in_postgresql(running, ports, postgres_server):
    page, engine = f"http://127.0.0.1:{ports['8501']}", f"http://127.0.0.1:{ports['8000']}"
    told = json.loads(ask(f"{engine}/v1/completions", PROMPT))
    assert told["usage"]["completion_tokens"] > 0

    def stored():
        health = json.loads(ask(f"{page}/api/health"))
        assert health["status"] == "ok"
        assert health["database"]["url_scheme"] == "postgresql"
        return health["database"]["stored_events"] > 40

    until(stored)
    with psycopg.connect(postgres_server.url("kvxray")) as connection:
        [events] = connection.execute("SELECT sum(num_events) FROM chunk").fetchone()
        names = connection.execute("SELECT count(*) FROM name WHERE id LIKE 'cmpl-%'").fetchone()
    assert events > 40
    assert names == (1,)
    [source] = json.loads(ask(f"{page}/api/sources"))["sources"]
    assert (source["source"], source["state"]) == ("engine", "connected")
    assert b"<html" in ask(f"{page}/").lower()


def test_a_wrong_token_is_not_healthy(running, ports, postgres_server):
    for service in ("backend", "engine"):
        assert is_healthy(service, ports, postgres_server)
        assert not is_healthy(service, ports, postgres_server, KVXRAY_TOKEN="another")


def test_stopping_them_is_no_failure(running):
    assert [end(process) for process in reversed(running)] == [0, 0]
