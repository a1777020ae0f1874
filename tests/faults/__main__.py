"""Measures how long each fault takes to be detected, and tells it in docs/faults.md: `python -m tests.faults`"""

from __future__ import annotations

import logging
import sys

from tests.faults import times
from tests.faults.fault_run import run
from tests.faults.matrix import MATRIX, SEEDS


def main() -> int:
    logging.disable(logging.ERROR)  # of messages that are lost on purpose
    measured: dict[str, list[float]] = {}
    for name, expected in MATRIX.items():
        if not expected.rule:
            continue
        took = [run(name, seed).detected_s for seed in SEEDS]
        print(f"{name}: {', '.join('not detected' if one is None else f'{one:.1f} s' for one in took)}", flush=True)
        measured[name] = [one for one in took if one is not None]
    times.write(measured)
    times.put_into_page(times.table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
