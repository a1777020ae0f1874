"""`kvxray engine` as a person starts it, on free ports; ended however the test ends."""

import json
import signal
import subprocess
import sys

import openai


class Process:
    """`ready`: the line it prints once it serves."""

    def __init__(self, *options: str) -> None:
        ports = ["--port", "0", "--events-port", "0", "--replay-port", "0"]
        command = [sys.executable, "-m", "kvxray_backend.cli", "engine", *ports, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> "Process":
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.ready = json.loads(line)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def client(self, api_key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.ready["api"] + "/v1", api_key=api_key, max_retries=0, timeout=60)

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors
