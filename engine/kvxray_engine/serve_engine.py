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
from typing import TYPE_CHECKING, Final

from kvxray_engine.api_server import check_port
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.engine_host import default_threads, loopback_endpoint, say_ready, stop_on_signals
from kvxray_engine.errors import UserError
from kvxray_engine.interruption import end_on_signals
from kvxray_engine.server.access import AccessRules
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.server.engine_server import EngineServer, ServerOptions
from kvxray_engine.stream.publisher import Publisher
from kvxray_engine.stream.recorder import Recorder

if TYPE_CHECKING:
    from kvxray_engine.model_loading import OpenModel
    from kvxray_engine.model_runner import ModelRunner

DTYPES: Final = {"auto": "float32", "fp32": "float32", "float32": "float32", "bf16": "bfloat16", "bfloat16": "bfloat16"}
"""What the model computes in: auto is float32, which every processor computes alike."""

QUANTISED: Final = ("fp8", "int8", "int4", "nvfp4", "turboquant", "octave", "ultraquant")
"""Beginnings of the names of cache dtypes that vLLM has and this engine does not."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Ports: 0 = any free one. `num_kv_blocks` and `gpu_memory_utilization` None: about a gibibyte of cache."""

    model: str = "smollm2"
    served_model_names: tuple[str, ...] = ()  # empty = the model's own name
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    block_size: int = 16
    num_kv_blocks: int | None = None  # the null block included
    gpu_memory_utilization: float | None = None  # share of the machine's memory for weights and cache
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
    _check_dtypes(options)
    check_port(options.port, options.host)
    for port in (options.events_port, options.replay_port):
        check_port(port)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    with ExitStack() as stack:
        with end_on_signals():
            opened, name = _open_model(options)
            model = _with_cache(opened, options)
        recorder = Recorder()
        stack.callback(recorder.handover.close)
        engine = LLMEngine(model, options.engine, recorder)
        publisher = Publisher(
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


def _check_dtypes(options: ServeOptions) -> None:
    choices = "choose auto, fp32 or bf16"
    for what, name in (("dtype", options.dtype), ("cache dtype", options.kv_cache_dtype)):
        if name.startswith(QUANTISED):
            raise UserError(f"The {what} {name} is quantised, which this engine cannot do yet: {choices}.")
        if name not in DTYPES:
            raise UserError(f"This engine has no {what} called {name}: {choices}.")


def _open_model(options: ServeOptions) -> tuple[OpenModel, str]:
    """The model and the name it goes by: its own for built-in ones, that of its file or folder for others."""
    import torch

    from kvxray_engine.model_loading import open_model
    from kvxray_engine.model_store import MODEL_NAMES, fetch_smollm2

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(default_threads(os.cpu_count() or 1))
    if options.model == "smollm2":
        fetch_smollm2()
    opened = open_model(options.model, DTYPES[options.dtype], options.engine.max_model_len)
    return opened, options.model if options.model in MODEL_NAMES else opened.model.config.name


def _with_cache(opened: OpenModel, options: ServeOptions) -> ModelRunner:
    dtype = DTYPES[options.dtype if options.kv_cache_dtype == "auto" else options.kv_cache_dtype]
    if options.num_kv_blocks is not None:
        num_blocks = options.num_kv_blocks
    elif options.gpu_memory_utilization is not None:
        num_blocks = opened.num_blocks_within(options.gpu_memory_utilization, options.block_size, dtype)
    else:
        num_blocks = opened.default_num_blocks(options.block_size, dtype)
    model = opened.with_cache(num_blocks, options.block_size, dtype)
    megabytes = model.bytes_per_block * num_blocks / 1e6
    sys.stderr.write(
        f"kvxray engine: {num_blocks} blocks of {options.block_size} tokens, {megabytes:.1f} MB of cache\n"
    )
    return model


def _cache_config(options: ServeOptions) -> dict[str, str]:
    """vLLM's labels of cache_config_info that follow from the options."""
    return {"gpu_memory_utilization": str(options.gpu_memory_utilization)}
