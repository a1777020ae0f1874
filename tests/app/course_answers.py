"""Answers of `/api/course` for tests of the charts, made of what a test says of some series."""

from __future__ import annotations

import math
from typing import Any

T0 = 1_767_225_600
"""2026-01-01T00:00:00Z, where the scripted backend's time begins."""

GAUGES = (
    "unknown",
    "empty",
    "free",
    "cached",
    "active",
    "shared",
    "used",
    "running",
    "waiting",
    "internal_fragmentation",
)
RATES = ("allocations_per_s", "evictions_per_s", "preemptions_per_s", "hit_rate")
LATENCIES = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s")


def iso(second: float) -> str:
    return f"2026-01-01T{int(second) // 3600:02d}:{int(second) // 60 % 60:02d}:{second % 60:06.3f}Z"


def course(rows: int = 120, seconds: int = 1, begin: int = 0, **series: list[float | None]) -> dict[str, Any]:
    """So many buckets, their values waves unless `series` says otherwise; times in seconds since T0."""

    def wave(at: int, number: int) -> float:
        return 0.5 + 0.4 * math.sin(at / 9 + number)

    told: dict[str, list[float | None]] = {}
    for number, name in enumerate((*GAUGES, *RATES, *LATENCIES)):
        high = 40 if name in GAUGES[:-1] or name in RATES[:-1] else 1
        told[name] = [round(high * wave(at, number), 3) for at in range(rows)]
        if name not in LATENCIES:
            told[f"{name}_min"], told[f"{name}_max"] = list(told[name]), list(told[name])
    told["unknown"] = told["unknown_min"] = told["unknown_max"] = [0] * rows
    told["usable_blocks"] = [200] * rows
    for name, values in series.items():
        told[name] = values
        for end in ("_min", "_max"):
            if f"{name}{end}" in told and f"{name}{end}" not in series:
                told[f"{name}{end}"] = values
    return {
        "begin": iso(begin),
        "end": iso(begin + rows * seconds),
        "seconds": seconds,
        "windows": {"rate_s": 10, "hit_rate_s": 60, "latency_s": 60},
        "t": [T0 + begin + at * seconds for at in range(rows)],
        "epoch": [1] * rows,
        "series": told,
        "gaps": [],
        "num_gaps": 0,
    }
