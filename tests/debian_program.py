"""Programs that Debian's packages have, such as Prometheus: CI installs them, and fails without them."""

from __future__ import annotations

import os
import shutil

import pytest


def debian_program(name: str, package: str = "prometheus") -> str:
    """Where it is; `KVXRAY_` and its name names another one. Skips the test where it is not installed."""
    variable = f"KVXRAY_{name.replace('-', '_').upper()}"
    found = os.environ.get(variable) or shutil.which(name)
    if found is None:
        why = f"{name} is not installed: apt-get install {package}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return found
