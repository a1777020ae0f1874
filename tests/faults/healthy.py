"""Long healthy runs, in which no rule may fire: `python -m tests.faults.healthy [--rows N] [--traces FOLDER]`

Our own engine under its own workloads and under recorded traffic of real users, and recorded streams of vLLM and
SGLang. Prints rows, hours and looks by workload, and every alert there was.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Final

from kvxray_backend.alerts.alert import Alert
from kvxray_engine.traces import read_trace

from tests.faults.alert_desk import AlertDesk
from tests.faults.healthy_streams import streams
from tests.faults.healthy_workloads import Agents, Crowd, HealthyWorkload, Trace

DATA: Final = Path(__file__).parents[1] / "data"
FIRST_600: Final = DATA / "mooncake_conversation_first600.jsonl.gz"
SHARES: Final = {"crowd": 0.05, "agents": 0.1, "traces": 0.85}
"""Of the rows. Nothing is without, so that none runs for no time."""
POOLS: Final = (16_385, 65_537)
"""Blocks: what fits a few users at a time, and what fits them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """seconds: of the engine's time. findings: how often each kind was found."""

    name: str
    rows: int
    seconds: float
    looks: int
    findings: Counter[str]
    alarms: tuple[Alert, ...]


def outcomes(rows: int, traces: Sequence[Path] = (FIRST_600,)) -> Iterator[Outcome]:
    """Of at least so many rows together, one workload after the other."""
    yield from of_streams()
    yield of_crowd(round(rows * SHARES["crowd"]))
    yield of_agents(round(rows * SHARES["agents"]))
    yield from of_traces(round(rows * SHARES["traces"]), traces)


def of_streams() -> Iterator[Outcome]:
    for stream in streams(DATA / "captures"):
        stream.run()
        yield _outcome(stream.desk, stream.rows, stream.seconds)


def of_crowd(rows: int) -> Outcome:
    return _run(Crowd(1), rows)


def of_agents(rows: int) -> Outcome:
    return _run(Agents(1), rows)


def of_traces(rows: int, traces: Sequence[Path] = (FIRST_600,)) -> Iterator[Outcome]:
    """Each through pools of several sizes, over and over until there were so many."""
    for num_blocks, path in cycle(product(POOLS, traces)):
        name = f"{path.name.partition('.')[0]}, {num_blocks:,} blocks"
        done = _run(Trace(name, read_trace(path), num_blocks), rows)
        yield done
        rows -= done.rows
        if rows <= 0:
            return


def _run(workload: HealthyWorkload, rows: int) -> Outcome:
    began_ns = workload.now_ns
    workload.run(rows)
    return _outcome(workload.folded.desk, workload.folded.rows, (workload.now_ns - began_ns) / 1e9)


def _outcome(desk: AlertDesk, rows: int, seconds: float) -> Outcome:
    found = Counter(finding.kind for finding in desk.findings.values())
    return Outcome(desk.engine, rows, seconds, desk.num_looks, found, tuple(desk.fired))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.healthy")
    parser.add_argument("--rows", type=int, default=500_000, help="rows in all, at least")
    parser.add_argument("--traces", type=Path, help="a folder of traces, in place of the small one")
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)  # steps that fail on purpose
    paths = sorted(options.traces.glob("*.gz")) if options.traces else [FIRST_600]
    total, alarms = 0, list[Alert]()
    print(f"{'workload':<44} {'rows':>12} {'hours':>8} {'looks':>8}  found", flush=True)
    for one in outcomes(options.rows, paths):
        total, alarms = total + one.rows, [*alarms, *one.alarms]
        found = ", ".join(f"{kind} {times}" for kind, times in sorted(one.findings.items())) or "nothing"
        print(f"{one.name:<44} {one.rows:>12,} {one.seconds / 3600:>8.2f} {one.looks:>8,}  {found}", flush=True)
        for alert in one.alarms:
            print(f"    ALERT {alert.rule} ({alert.severity}): {alert.culprit or alert.sentence}", flush=True)
    print(f"{total:,} rows, {len(alarms)} alerts")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
