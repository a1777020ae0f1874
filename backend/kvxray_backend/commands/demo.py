"""Watch a real cache at work: a language model serves a team of agents, and the dashboard shows every block of its KV
cache. Starts an engine in a process of its own, the backend and the page in this one.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from typing import Final

from kvxray_engine.dtypes import AUTO, check_dtypes
from kvxray_engine.errors import UserError
from kvxray_engine.faults.fault import Fault, parse_faults

SUMMARY: Final = "run a real model and watch its cache"
SOURCE: Final = "demo"
LEAK: Final = "leak-on-abort"
FAULT_HELP: Final = "a fault on purpose: NAME or NAME:rate=0.1,seed=1,after=20; may be repeated; names: docs/faults.md"
CACHE_DTYPE_HELP: Final = (
    "type of keys and values in the cache: fp32, fp16, bf16, fp8_e4m3, int8 or int4; auto: as the model"
)
DEVICES: Final = ("auto", "cpu", "cuda")
PASSED_ON: Final = (
    "model", "agents", "seed", "events_port", "replay_port", "api_port", "num_kv_blocks", "kv_cache_dtype", "device",
)  # fmt: skip
"""Options of the engine's process."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=("smollm2", "tiny"), default="smollm2", help="the language model")
    parser.add_argument("--agents", type=positive, default=20, metavar="N", help="agents that share a system prompt")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="decides what the agents ask and when")
    parser.add_argument("--port", type=port_number, metavar="P", help="port of the page (else KVXRAY_PORT, else 8501)")
    parser.add_argument("--leak", action="store_true", help="the fault leak-on-abort: cancelled requests keep blocks")
    parser.add_argument("--fault", action="append", metavar="FAULT", help=FAULT_HELP)
    parser.add_argument(
        "--num-kv-blocks",
        type=positive,
        metavar="N",
        help="size of the cache in blocks of 16 tokens (else 641, one of them the null block)",
    )
    parser.add_argument("--kv-cache-dtype", default="auto", help=CACHE_DTYPE_HELP)
    parser.add_argument("--device", default="auto", choices=DEVICES, help="auto: the GPU where there is one to use")
    parser.add_argument("--events-port", type=port_number, default=5570, help="port of the engine's events")
    parser.add_argument("--replay-port", type=port_number, default=5571, help="port of replay and snapshots")
    parser.add_argument("--api-port", type=port_number, default=8000, help="port of the engine's own API")
    parser.add_argument(
        "--engine-only",
        action="store_true",
        help="run only the engine: to start it again while the page is up, or to follow it from elsewhere",
    )
    parser.add_argument("--until-stdin-closes", action="store_true", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    check_dtypes(AUTO, options.kv_cache_dtype)
    faults_of(options)
    return run_engine(options) if options.engine_only else run_all(options)


def run_engine(options: argparse.Namespace) -> int:
    """The engine alone, in this process, until it is told to stop."""
    from kvxray_engine.demo_engine import DemoOptions
    from kvxray_engine.demo_engine import run as run_demo_engine

    if options.until_stdin_closes:
        threading.Thread(target=_stop_when_stdin_closes, daemon=True).start()
    return run_demo_engine(
        DemoOptions(
            model=options.model,
            agents=options.agents,
            seed=options.seed,
            faults=faults_of(options),
            events_port=options.events_port,
            replay_port=options.replay_port,
            api_port=options.api_port,
            num_kv_blocks=options.num_kv_blocks,
            kv_cache_dtype=options.kv_cache_dtype,
            device=options.device,
        )
    )


def run_all(options: argparse.Namespace) -> int:
    """Engine, backend and page; ends all of them when this process is told to stop."""
    from kvxray_backend.commands.serve import leave, listen, serve
    from kvxray_backend.engine_process import EngineProcess
    from kvxray_backend.settings import load_settings

    ports = {"--events-port": options.events_port, "--replay-port": options.replay_port, "--api-port": options.api_port}
    named = [port for port in ports.values() if port]
    if len(set(named)) != len(named):
        raise UserError("Give the engine's events, replay and API ports of their own.")
    if any(port == 0 for port in ports.values()):
        raise UserError("Port 0 needs --engine-only: the page must know beforehand where the engine is.")
    # Who is there already would be followed in the engine's place.
    for option, port in ports.items():
        listen("127.0.0.1", port, option).close()
    source = {
        "name": SOURCE,
        "events": f"tcp://127.0.0.1:{options.events_port}",
        "replay": f"tcp://127.0.0.1:{options.replay_port}",
        "api": f"http://127.0.0.1:{options.api_port}",
    }
    overrides = {} if options.port is None else {"port": options.port}
    settings = load_settings(sources=[source], **overrides)
    engine = EngineProcess(engine_command(options))
    # Until the server has its own handlers, and after it, a request to stop must still end the engine.
    signal.signal(signal.SIGTERM, leave)
    try:
        for fault in faults_of(options):
            sys.stderr.write(f"kvxray demo: {fault.notice}\n")
        engine.start(on_early_exit=_stop_self)
        code = serve(settings, announce="kvxray demo")
    except (SystemExit, KeyboardInterrupt):
        code = 0
    finally:
        engine.stop()
    return engine.early_exit_code or code


def engine_command(options: argparse.Namespace) -> list[str]:
    """The command line that runs the demo's engine alone."""
    command = [sys.executable, "-m", "kvxray_backend.cli", "demo", "--engine-only", "--until-stdin-closes"]
    for name in PASSED_ON:
        value = getattr(options, name)
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    for fault in faults_of(options):
        command += ["--fault", str(fault)]
    return command


def faults_of(options: argparse.Namespace) -> tuple[Fault, ...]:
    """What is to go wrong on purpose. Raises UserError."""
    return parse_faults([*(options.fault or ()), *([LEAK] if options.leak else ())])


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def port_number(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port (0 to 65535)")
    return number


def _stop_self() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_when_stdin_closes() -> None:
    """Whoever started this process holds its standard input open: when that is gone, so are we."""
    while os.read(0, 1024):
        pass
    _stop_self()
