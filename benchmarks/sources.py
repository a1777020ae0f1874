"""Engines of others: how fast what they publish is taken in, from the payload to the commit, and what part of that
each stage takes.

A vLLM that is made up publishes prompts of up to 64 blocks, single blocks of decoding, one removal an evicted block and
a reset now and then, in four dialects: events as maps or arrays, hashes of 32 bytes or of 64 bits. Its payloads are
made beforehand. They go through the decoder, the sequencer, interning, the fold and the event log, as a live engine's
do but for the sockets; in between, in turns, msgspec alone decodes the same payloads into plain objects: what any
Python consumer has to spend before it knows anything. Stages are told in processor time of the thread that follows;
the event log's own thread works beside it.

`batches_per_s`, `blocks_per_s` and `ratio_bare_decode` are of the first dialect, the one that vLLM speaks by default.
What is written into a database that was named stays there; without --database it is a temporary SQLite file.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from kvxray_engine.errors import UserError
from kvxray_storage.database import Database, open_database
from kvxray_storage.event_log import EventLog

from benchmarks.measuring.foreign_engine import DIALECTS, ForeignEngine
from benchmarks.measuring.foreign_path import ForeignPath

BARE: Final = msgspec.msgpack.Decoder()


@dataclass(frozen=True, slots=True)
class Stream:
    """What is published in one round. `blocks`: hashes stored and removed in it."""

    payloads: list[bytes]
    blocks: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds of each round, ours and of the bare decoder; `stage_s`: processor time of ours, all rounds together."""

    streams: list[Stream]
    whole_s: list[float]
    bare_s: list[float]
    stage_s: dict[str, float]

    def figures(self) -> dict[str, Any]:
        batches = [len(stream.payloads) for stream in self.streams]
        blocks = [stream.blocks for stream in self.streams]
        total = sum(self.stage_s.values())
        return {
            "batches_per_s": rate(batches, self.whole_s),
            "blocks_per_s": rate(blocks, self.whole_s),
            "bare_decode_blocks_per_s": rate(blocks, self.bare_s),
            # Of the same payloads: a ratio of rates is the inverse one of seconds.
            "ratio_bare_decode": round(median(b / w for b, w in zip(self.bare_s, self.whole_s, strict=True)), 3),
            "cpu_microseconds_per_batch": {
                stage: round(seconds / sum(batches) * 1e6, 1) for stage, seconds in self.stage_s.items()
            },
            "share_of_stage": {stage: round(seconds / total, 3) for stage, seconds in self.stage_s.items()},
        }


def main() -> int:
    options = parse_arguments()
    try:
        result = measure(options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kvxray bench sources", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; default: a temporary file")
    parser.add_argument("--batches", type=int, default=4_000, help="of each dialect in each round")
    parser.add_argument("--rounds", type=int, default=5, help="in each of which everything runs once")
    parser.add_argument("--blocks", type=int, default=8_192, help="blocks of the made-up engine")
    options = parser.parse_args()
    if min(options.batches, options.rounds) < 1:
        parser.error("batches and rounds are at least 1")
    if options.blocks < 256:
        parser.error("--blocks is at least 256: prompts have up to 64")
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kvxray-bench-") as folder:
        database = open_database(options.database or f"sqlite:///{Path(folder) / 'kvxray.db'}")
        try:
            dialects = in_turns(database, options)
        finally:
            database.close()
        first = dialects[DIALECTS[0]]
        return {
            **{name: first[name] for name in ("batches_per_s", "blocks_per_s", "ratio_bare_decode")},
            "dialects": dialects,
            "database": database.url_scheme,
            **{name: getattr(options, name) for name in ("batches", "rounds", "blocks")},
        }


def in_turns(database: Database, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Every dialect, ours and bare, in each round; who begins changes from round to round."""
    engines = {dialect: ForeignEngine(dialect, options.blocks) for dialect in DIALECTS}
    rounds = {dialect: Rounds([], [], [], {}) for dialect in DIALECTS}
    with EventLog(database) as log:
        paths = {dialect: ForeignPath(log) for dialect in DIALECTS}
        for number in range(options.rounds + 1):
            for dialect, engine in engines.items():
                stream = published(engine, options.batches)
                if number == 0:  # fills the engine's cache and warms everything up; on nobody's clock
                    paths[dialect].take(stream.payloads)
                    paths[dialect].clock.reset()
                    continue
                one_round(rounds[dialect], paths[dialect], stream, number)
            print(f"round {number} of {options.rounds}", file=sys.stderr)
        for dialect, path in paths.items():
            path.check_integrity((options.rounds + 1) * options.batches)
            rounds[dialect].stage_s.update(path.clock.seconds)
            path.close()
        assert log.stats().duplicates == 0, "something came twice"
    return {dialect: one.figures() for dialect, one in rounds.items()}


def published(engine: ForeignEngine, batches: int) -> Stream:
    before = engine.blocks
    payloads = [engine.payload() for _ in range(batches)]
    engine.check_integrity()
    return Stream(payloads, engine.blocks - before)


def one_round(rounds: Rounds, path: ForeignPath, stream: Stream, number: int) -> None:
    def whole() -> None:
        path.take(stream.payloads)

    def bare() -> None:
        for payload in stream.payloads:
            BARE.decode(payload)

    gc.collect()
    gc.freeze()  # the payloads were made beforehand and are nobody's work
    in_order = [(whole, rounds.whole_s), (bare, rounds.bare_s)]
    for run, seconds in in_order if number % 2 else reversed(in_order):
        seconds.append(timed(run))
    gc.unfreeze()
    rounds.streams.append(stream)


def timed(run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def rate(units: list[int], seconds: list[float]) -> int:
    """Median over the rounds, a second."""
    return round(median(number / took for number, took in zip(units, seconds, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
