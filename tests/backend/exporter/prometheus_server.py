"""A real Prometheus, as Debian packages it, that scrapes what it is told to."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.backend.served import until
from tests.debian_program import debian_program

SCRAPE_EVERY: str = "1s"


class Prometheus:
    """`get` asks its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=30) as answer:
            told = json.load(answer)
        assert told["status"] == "success"
        return told["data"]

    def values(self, expr: str) -> dict[frozenset[tuple[str, str]], float]:
        """Now, by labels."""
        told = self.get("query", query=expr)["result"]
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in told}


@contextmanager
def prometheus(folder: Path, job: Mapping[str, Any], *rule_files: Path) -> Iterator[Prometheus]:
    """job: of its scrape_configs, but the name and how often."""
    scrape = {"job_name": "kvxray", "scrape_interval": SCRAPE_EVERY, "scrape_timeout": SCRAPE_EVERY, **job}
    config = {
        "global": {"evaluation_interval": "1s"},
        "scrape_configs": [scrape],
        "rule_files": [str(path) for path in rule_files],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = _free_port()
    command = [
        debian_program("prometheus"), f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: process.poll() is not None or _is_ready(url))
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
