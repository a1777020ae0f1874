"""The demo's engine process: a real model, agents that use it, and the stream of what its cache does.

Everything is put together here and nowhere else. Torch is imported only once it runs.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from kvxray_engine.api_server import check_port
from kvxray_engine.dtypes import AUTO, check_dtypes
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.engine_host import (
    default_threads,
    limit_kernel_caches,
    loopback_endpoint,
    say_ready,
    stop_on_signals,
)
from kvxray_engine.errors import UserError
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.placing import make_publisher
from kvxray_engine.interruption import end_on_signals
from kvxray_engine.server.engine_server import EngineServer, ServerOptions
from kvxray_engine.step_batch import StepModel
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.tokenizer import Tokenizer
from kvxray_engine.workload import Workload, WorkloadConfig, least_context


@dataclass(frozen=True, slots=True)
class Pace:
    """How the demo's loop breathes: no step is shorter than `min_step_s`, and after each it rests for `rest` of its
    time, so that the page has the processor too."""

    min_step_s: float
    rest: float


@dataclass(frozen=True, slots=True)
class Sizing:
    """A pool small enough for 20 agents to evict each other's history, and now and then to preempt each other."""

    num_kv_blocks: int  # the null block included
    pace: Pace


SIZINGS = {
    "smollm2": Sizing(641, Pace(min_step_s=0.02, rest=0.1)),
    "tiny": Sizing(641, Pace(min_step_s=0.05, rest=0.1)),
}
IDLE_S = 0.1
"""Rest after a step that had nothing to compute: all think, or those that wait do not fit."""

MAX_AGENTS = 1000
"""Each is asked at every turn of the loop, and far fewer than these keep the engine busy for good."""

MAX_NUM_SEQS = 16
MAX_NUM_BATCHED_TOKENS = 192


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Ports: 0 = any free one. `num_kv_blocks` None and `threads` 0: chosen for the model and this machine."""

    model: str = "smollm2"
    agents: int = 20
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    events_port: int = 5570
    replay_port: int = 5571
    api_port: int = 8000
    num_kv_blocks: int | None = None
    block_size: int = 16
    kv_cache_dtype: str = "auto"  # as the model's
    device: str = "auto"
    source: str = "demo"
    labels: dict[str, str] = field(default_factory=dict)
    threads: int = 0


def run(options: DemoOptions) -> int:
    """Runs until SIGTERM or SIGINT. One JSON line on standard output says when and where it is ready.

    Raises UserError when it cannot start: a port in use, an unknown model, a pool too large or too small.
    """
    _check(options)
    with stop_on_signals() as stopping:
        return serve(options, stopping)


def serve(options: DemoOptions, stopping: threading.Event) -> int:
    """What `run` does, until `stopping` is set."""
    with ExitStack() as stack:
        with end_on_signals():  # nobody looks at `stopping` yet
            model, tokenizer, name = _load(options)
        recorder = Recorder()
        stack.callback(recorder.handover.close)
        engine = LLMEngine(model, _engine_config(options), recorder)
        workload = Workload(engine, tokenizer, WorkloadConfig(agents=options.agents, seed=options.seed))
        publisher = make_publisher(
            options.faults,
            recorder,
            engine.descriptor(_labels(options, name)),
            options.source,
            loopback_endpoint(options.events_port),
            loopback_endpoint(options.replay_port),
        )
        stack.callback(publisher.close)
        server = EngineServer(engine, tokenizer, ServerOptions((name,), port=options.api_port))
        stack.callback(server.close)
        publisher.start()
        server.start()
        say_ready(publisher, server.address, name)
        _loop(engine, workload, server, SIZINGS[name].pace, stopping)
    return 0


def _check(options: DemoOptions) -> None:
    if options.model not in SIZINGS:
        raise UserError(f"There is no model called {options.model}: choose {' or '.join(SIZINGS)}.")
    if options.agents < 1:
        raise UserError("The demo needs at least one agent: give --agents 1 or more.")
    if options.agents > MAX_AGENTS:
        raise UserError(f"The demo has at most {MAX_AGENTS:,} agents: give --agents {MAX_AGENTS} or fewer.")
    if options.block_size < 1:
        raise UserError("A block holds at least one token: give --block-size 1 or more.")
    check_dtypes(AUTO, options.kv_cache_dtype)
    check_port(options.events_port, option="--events-port")
    check_port(options.replay_port, option="--replay-port")
    check_port(options.api_port, option="--api-port")


def _load(options: DemoOptions) -> tuple[StepModel, Tokenizer, str]:
    """The model asked for, or the tiny one where it cannot be had; its tokenizer and name."""
    import torch

    from kvxray_engine.device import choose_device, default_dtype
    from kvxray_engine.model_loading import open_model
    from kvxray_engine.model_store import fetch_smollm2

    device = choose_device(options.device)
    torch.set_num_threads(options.threads or default_threads(os.cpu_count() or 1))
    limit_kernel_caches()
    name = options.model
    if name == "smollm2":
        try:
            fetch_smollm2()
        except UserError as error:
            sys.stderr.write(f"kvxray: {str(error).rstrip('.')}; the demo runs the built-in tiny model instead.\n")
            name = "tiny"
    blocks = SIZINGS[name].num_kv_blocks if options.num_kv_blocks is None else options.num_kv_blocks
    opened = open_model(name, default_dtype(device), device=device)
    opened.model.release_matrices()  # they are kept in the form in which they are multiplied
    _check_pool(blocks, options.block_size, opened.tokenizer)
    return opened.with_cache(blocks, options.block_size, options.kv_cache_dtype), opened.tokenizer, name


def _check_pool(num_blocks: int, block_size: int, tokenizer: Tokenizer) -> None:
    """UserError unless any task of an agent can begin in a pool of this size."""
    tokens = least_context(tokenizer)
    least = -(-tokens // block_size) + 1
    if num_blocks < least:
        raise UserError(
            f"The demo's agents need a pool of at least {least} blocks of {block_size} tokens with this model "
            f"({num_blocks} given): raise --num-kv-blocks."
        )


def _engine_config(options: DemoOptions) -> EngineConfig:
    return EngineConfig(max_num_seqs=MAX_NUM_SEQS, max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS, faults=options.faults)


def _labels(options: DemoOptions, model: str) -> dict[str, str]:
    return {"engine": "kvxray", "model": model, "role": "both", **options.labels}


def _loop(engine: LLMEngine, workload: Workload, server: EngineServer, pace: Pace, stopping: threading.Event) -> None:
    while not stopping.is_set():
        started = time.monotonic()
        workload.tick()
        outputs = engine.step()
        server.take(outputs)
        workload.take(outputs)
        took = time.monotonic() - started
        stopping.wait(max(pace.min_step_s - took, pace.rest * took) if engine.computed_tokens else IDLE_S)
