"""The process of `kvxray engine`: a model behind OpenAI's API, and the stream of what its cache does.

Everything is put together here and nowhere else. Torch is imported only once it runs.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvxray_engine.api_server import check_port
from kvxray_engine.dtypes import AUTO, MODEL_DTYPES, check_dtypes
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.engine_host import (
    default_threads,
    limit_kernel_caches,
    loopback_endpoint,
    say_ready,
    stop_on_signals,
)
from kvxray_engine.faults.placing import make_publisher
from kvxray_engine.interruption import end_on_signals
from kvxray_engine.server.access import AccessRules
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.server.engine_server import EngineServer, ServerOptions
from kvxray_engine.stream.recorder import Recorder

if TYPE_CHECKING:
    from kvxray_engine.model_loading import OpenModel
    from kvxray_engine.model_runner import ModelRunner


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Ports: 0 = any free one. `num_kv_blocks` and `gpu_memory_utilization` None: about a gibibyte of cache."""

    model: str = "smollm2"
    served_model_names: tuple[str, ...] = ()  # empty = the model's own name
    dtype: str = "auto"
    quantization: str | None = None  # of the weights
    kv_cache_dtype: str = "auto"  # as the model's
    device: str = "auto"
    block_size: int = 16
    num_kv_blocks: int | None = None  # the null block included
    gpu_memory_utilization: float | None = None  # share of the device's memory for weights and cache
    engine: EngineConfig = field(default_factory=EngineConfig)
    host: str = "127.0.0.1"
    port: int = 8000
    events_port: int = 5570
    replay_port: int = 5571
    api_key: str = ""
    allowed_hosts: tuple[str, ...] = ()
    source: str = "engine"
    seed: int = 0


def run(options: ServeOptions) -> int:
    """Runs until SIGTERM or SIGINT. One JSON line on standard output says when and where it is ready.

    Raises UserError when it cannot start. Exit code 1 when the engine failed while it ran.
    """
    with stop_on_signals() as stopping:
        return serve(options, stopping)


def serve(options: ServeOptions, stopping: threading.Event) -> int:
    """What `run` does, until `stopping` is set."""
    rules = AccessRules(options.host, options.api_key, frozenset(name.lower() for name in options.allowed_hosts))
    check_dtypes(options.dtype, options.kv_cache_dtype)
    check_port(options.port, options.host, option="--port")
    check_port(options.events_port, option="--events-port")
    check_port(options.replay_port, option="--replay-port")
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    with ExitStack() as stack:
        with end_on_signals():
            opened, name = _open_model(options)
            model = _with_cache(opened, options)
        recorder = Recorder()
        stack.callback(recorder.handover.close)
        engine = LLMEngine(model, options.engine, recorder)
        for fault in options.engine.faults:
            sys.stderr.write(f"kvxray engine: {fault.notice}\n")
        publisher = make_publisher(
            options.engine.faults,
            recorder,
            engine.descriptor({"engine": "kvxray", "model": name, "role": "both"}),
            options.source,
            loopback_endpoint(options.events_port),
            loopback_endpoint(options.replay_port),
        )
        stack.callback(publisher.close)
        server_options = ServerOptions(
            options.served_model_names or (name,), rules, options.port, options.seed, _cache_config(options)
        )
        server = EngineServer(engine, opened.tokenizer, server_options, is_alive=lambda: loop.alive)

        def fail() -> None:
            server.fail()
            stopping.set()

        loop = EngineLoop(engine, [server], on_failure=fail)
        stack.callback(loop.close)
        stack.callback(server.close)
        publisher.start()
        loop.start()
        server.start()
        say_ready(publisher, server.address, name)
        stopping.wait()
        return 0 if loop.alive else 1


def _open_model(options: ServeOptions) -> tuple[OpenModel, str]:
    """The model and the name it goes by: its own for built-in ones, that of its file or folder for others."""
    import torch

    from kvxray_engine.device import choose_device, default_dtype
    from kvxray_engine.model_loading import open_model
    from kvxray_engine.model_store import MODEL_NAMES, fetch_smollm2

    device = choose_device(options.device)
    dtype = default_dtype(device) if options.dtype == AUTO else MODEL_DTYPES[options.dtype]
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(default_threads(os.cpu_count() or 1))
    limit_kernel_caches()
    if options.model == "smollm2":
        fetch_smollm2()
    opened = open_model(options.model, dtype, options.engine.max_model_len, device, options.quantization)
    opened.model.release_matrices()  # they are kept in the form in which they are multiplied
    return opened, options.model if options.model in MODEL_NAMES else opened.model.config.name


def _with_cache(opened: OpenModel, options: ServeOptions) -> ModelRunner:
    size = (options.block_size, options.kv_cache_dtype)
    if options.num_kv_blocks is not None:
        num_blocks = options.num_kv_blocks
    elif options.gpu_memory_utilization is not None:
        num_blocks = opened.num_blocks_within(options.gpu_memory_utilization, *size)
    else:
        num_blocks = opened.default_num_blocks(*size)
    model = opened.with_cache(num_blocks, *size)
    megabytes = model.bytes_per_block * num_blocks / 1e6
    sys.stderr.write(
        f"kvxray engine: {num_blocks} blocks of {options.block_size} tokens, {megabytes:.1f} MB of {model.medium} "
        f"memory for a cache in {model.kv_cache_dtype}\n"
    )
    return model


def _cache_config(options: ServeOptions) -> dict[str, str]:
    """vLLM's labels of cache_config_info that follow from the options."""
    return {"gpu_memory_utilization": str(options.gpu_memory_utilization)}
