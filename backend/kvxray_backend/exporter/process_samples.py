"""Samples of the process that kvxray is, under the names that every exporter has for them. Linux tells all of them."""

from __future__ import annotations

import os
import resource
import time
from functools import cache
from pathlib import Path
from typing import Final

from kvxray_backend.exporter.samples import Samples

_PROC: Final = Path("/proc/self")


def add_process(samples: Samples) -> None:
    """What of them this system tells."""
    times = os.times()
    samples.add("process_cpu_seconds_total", times.user + times.system)
    samples.add("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        pages = (_PROC / "statm").read_text().split()
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        samples.add("process_virtual_memory_bytes", int(pages[0]) * page_bytes)
        samples.add("process_resident_memory_bytes", int(pages[1]) * page_bytes)
        samples.add("process_open_fds", len(os.listdir(_PROC / "fd")))
        samples.add("process_start_time_seconds", _started_s())
    except (OSError, ValueError, IndexError):
        return  # no such files on this system


@cache
def _started_s() -> float:
    # The name of the program, in brackets, may hold spaces.
    fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
    ticks_since_boot = int(fields[19])
    since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
    return time.time() - since_boot_s + ticks_since_boot / os.sysconf("SC_CLK_TCK")
