"""Large arrays that are dropped are given back to the system, also where others between them stay."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kvxray_backend.allocator import give_large_arrays_back

DROPS = """
import numpy as np, psutil
from kvxray_backend.allocator import give_large_arrays_back
give_large_arrays_back()
np.ones(30 << 20, np.uint8)  # dropped at once: from here on the allocator would keep all that is smaller
arrays = [np.ones(2 << 20, np.uint8) for _ in range(40)]
before = psutil.Process().memory_info().rss
del arrays[::2]
print((before - psutil.Process().memory_info().rss) >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told")
def test_what_is_dropped_between_what_stays_is_given_back() -> None:
    if not give_large_arrays_back():
        pytest.skip("this C library cannot be told")
    dropped = subprocess.run([sys.executable, "-c", DROPS], capture_output=True, text=True, check=True)
    assert int(dropped.stdout) >= 35
