"""A real Alertmanager, started by the test that needs one, and what it says through its API."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

from tests.backend.served import until

CONFIG = """\
route: {receiver: nobody, group_wait: 0s, group_interval: 1s}
receivers: [{name: nobody}]
inhibit_rules:
- source_matchers: ['alertname="EngineDown"']
  target_matchers: ['alertname="LeakNamed"']
  equal: ['engine']
"""


class Alertmanager:
    """`start` may be called again after `kill`: it has forgotten all then."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        config = self.folder / "alertmanager.yml"
        config.write_text(CONFIG)
        command = [
            self.program, f"--config.file={config}", f"--storage.path={self.folder}", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.is_ready)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def is_ready(self):
        assert self.process.poll() is None, "the Alertmanager ended"
        try:
            return self.ask("status")
        except OSError:
            return None

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}", data=data, headers={"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def alerts(self):
        """Those that fire there, by name and engine."""
        return {(one["labels"]["alertname"], one["labels"].get("engine")): one for one in self.ask("alerts")}

    def silence(self, comment, hours=2, **labels):
        now = datetime.now(UTC)
        matchers = [{"name": name, "value": value, "isRegex": False} for name, value in labels.items()]
        silence = {
            "matchers": matchers, "startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=hours)).isoformat(),
            "createdBy": "Ada", "comment": comment,
        }  # fmt: skip
        return self.ask("silences", silence)["silenceID"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
