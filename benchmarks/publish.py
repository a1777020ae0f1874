"""What publishing costs an engine's step: the same requests with the recorder off, and with it on, its publisher's
thread sending to a subscriber in another process.

Engines with publishing off, on, and off once more take turns of some steps; within a round they are paired, so that a
machine whose speed swings spoils nothing, and the two that are off say how much noise is left. The first steps of a
turn are not counted: what one engine leaves to be done falls on the next. A step computes about thirty matrix products,
as a model has layers: each gives the interpreter away and must have it back, so that the publisher can get in the way.

Once a second the publisher also folds what it sent, mostly without the interpreter, and on whoever's turn it is; the
processor time of that is told apart, as `folds_microseconds_per_step`, and is in no ratio.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a step's time must not depend on who else uses the cores

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence
from kvxray_engine.stream.publisher import FOLD_EVERY_S, Publisher
from kvxray_engine.stream.recorder import NullRecorder, Recorder

PROMPT = 64
BLOCK_SIZE = 16
SETTLING_STEPS = 6  # of a turn
SUBSCRIBER = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.setsockopt(zmq.SUBSCRIBE, b"")
socket.connect(sys.argv[1])
while True:
    socket.recv_multipart()
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench publish", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--running", type=int, default=160, help="requests that decode at once")
    parser.add_argument("--compute-ms", type=float, default=5.0, help="of a step, spent in matrix products")
    parser.add_argument("--rounds", type=int, default=60, help="medians are taken over so many")
    parser.add_argument("--steps", type=int, default=20, help="of one turn")
    options = parser.parse_args()
    result = measure(options)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    steps = options.rounds * options.steps + 10
    products = calibrate(options.compute_ms / 1000)
    recorder = Recorder()
    engines = {
        "off": make_engine(NullRecorder(), options.running, steps, products),
        "on": make_engine(recorder, options.running, steps, products),
        "off_again": make_engine(NullRecorder(), options.running, steps, products),
    }
    endpoint, descriptor = "tcp://127.0.0.1:*", engines["on"].descriptor()
    seldom = FOLD_EVERY_S * len(engines)  # since this engine is stepped a third of the time
    with TimedPublisher(recorder, descriptor, "bench", endpoint, endpoint, fold_every_s=seldom) as publisher:
        subscriber = subprocess.Popen([sys.executable, "-c", SUBSCRIBER, publisher.events_address])
        try:
            for engine in engines.values():
                admit(engine, options.running, steps)
            turns = [take_turns(engines, number, options.steps) for number in range(options.rounds)]
        finally:
            subscriber.terminate()
            subscriber.wait()
    folds_s = publisher.folds_s / publisher.sent_messages
    return figures(turns, folds_s, products, options) | {
        "messages_sent": publisher.sent_messages,
        "messages_lost": recorder.lost,
    }


class TimedPublisher(Publisher):
    """Keeps the processor time of its folds."""

    folds_s = 0.0

    def _fold_what_waits(self) -> None:
        begun = time.thread_time()
        super()._fold_what_waits()
        self.folds_s += time.thread_time() - begun


def figures(
    turns: list[dict[str, float]], folds_s: float, products: int, options: argparse.Namespace
) -> dict[str, Any]:
    """`turns`: seconds of a step for each engine, round by round; `folds_s`: processor time of the folds of a step."""
    off = [(turn["off"] + turn["off_again"]) / 2 for turn in turns]
    on = [turn["on"] for turn in turns]
    return {
        "running": options.running,
        "compute_ms": options.compute_ms,
        "products_per_step": products,
        "step_ms_off": median(off) * 1000,
        "ratio_step_publishing_on_off": median(mine / base for mine, base in zip(on, off, strict=True)),
        "ratio_step_off_off": median(turn["off_again"] / turn["off"] for turn in turns),
        "microseconds_per_step": median(mine - base for mine, base in zip(on, off, strict=True)) * 1e6,
        "folds_microseconds_per_step": folds_s * 1e6,
        "rounds": len(turns),
        "steps_per_turn": options.steps,
    }


def take_turns(engines: dict[str, LLMEngine], number: int, steps: int) -> dict[str, float]:
    """Seconds of a step of each engine, in one round; whoever begins changes from round to round."""
    names = [*engines]
    shift = number % len(names)
    return {name: turn(engines[name], steps) for name in names[shift:] + names[:shift]}


def turn(engine: LLMEngine, steps: int) -> float:
    for _ in range(SETTLING_STEPS):
        engine.step()
    begun = time.perf_counter()
    for _ in range(steps - SETTLING_STEPS):
        engine.step()
    return (time.perf_counter() - begun) / (steps - SETTLING_STEPS)


def make_engine(recorder: NullRecorder, running: int, steps: int, products: int) -> LLMEngine:
    blocks = running * -(-(PROMPT + steps) // BLOCK_SIZE) + 1
    model = ComputingModel(products, blocks, PROMPT + 2 * steps)
    return LLMEngine(model, EngineConfig(max_num_seqs=running, max_num_batched_tokens=running * PROMPT), recorder)


def admit(engine: LLMEngine, running: int, steps: int) -> None:
    """All requests run, and have computed their prompts, when this returns."""
    for number in range(running):
        prompt = [number] + [1] * (PROMPT - 1)
        sampling = SamplingParams(max_tokens=steps, ignore_eos=True)
        engine.add_request(NewRequest(f"request-{number}", prompt, sampling))
    engine.step()
    assert len(engine.scheduler.running) == running, "every request has a seat and its blocks"


class ComputingModel(NullModel):
    """A null model that takes the time of so many small matrix products."""

    def __init__(self, products: int, num_blocks: int, max_model_len: int) -> None:
        super().__init__(num_blocks, BLOCK_SIZE, max_model_len=max_model_len)
        self.products = products

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        compute(self.products)
        return super().execute(batch)


LEFT = np.ones((160, 240), np.float32)
RIGHT = np.ones((240, 240), np.float32)
RESULT = np.empty((160, 240), np.float32)


def compute(products: int) -> None:
    for _ in range(products):
        np.matmul(LEFT, RIGHT, out=RESULT)


def calibrate(seconds: float) -> int:
    """Matrix products that take so long on this machine when nothing is in their way."""
    best = min(timed(50) for _ in range(20))
    return max(1, round(50 * seconds / best))


def timed(products: int) -> float:
    begun = time.perf_counter()
    compute(products)
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
