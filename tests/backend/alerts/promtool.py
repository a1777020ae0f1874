"""Prometheus' own checker of rules, where it is installed; CI installs it, and fails without it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.debian_program import debian_program

TIMEOUT_S = 120.0


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [debian_program("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
