"""What importing the backend costs: no torch, no Streamlit, none of the page."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["torch", "streamlit", "kvxray_app", "transformers", "kvxray_kernels"])
def test_the_backend_is_imported_without(module: str) -> None:
    code = f"import sys, kvxray_backend.main; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
