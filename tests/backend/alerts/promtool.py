"""Prometheus' own checker of rules, where it is installed; CI installs it, and fails without it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TIMEOUT_S = 120.0


def promtool() -> str:
    found = os.environ.get("KVXRAY_PROMTOOL") or shutil.which("promtool")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is not installed: apt-get install prometheus")
        pytest.skip("promtool is not installed: apt-get install prometheus")
    return found


def run_promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [promtool(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
