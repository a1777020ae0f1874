"""Run a language model behind OpenAI's API, with a paged KV cache that the dashboard can follow. Options that vLLM has
too are called as there.
"""

from __future__ import annotations

import argparse
import os
from typing import Final

from kvxray_backend.commands.demo import CACHE_DTYPE_HELP, DEVICES, FAULT_HELP, port_number, positive

SUMMARY: Final = "serve a model with OpenAI's API and a cache to watch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_model_arguments(parser)
    _add_cache_arguments(parser)
    _add_scheduler_arguments(parser)
    _add_server_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from kvxray_engine.engine import EngineConfig
    from kvxray_engine.faults.fault import parse_faults
    from kvxray_engine.serve_engine import ServeOptions
    from kvxray_engine.serve_engine import run as run_engine
    from kvxray_engine.waiting_line import SchedulingPolicy

    engine = EngineConfig(
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        max_model_len=options.max_model_len,
        enable_prefix_caching=options.enable_prefix_caching,
        policy=SchedulingPolicy[options.scheduling_policy],
        faults=parse_faults(options.fault or ()),
    )
    return run_engine(
        ServeOptions(
            model=options.model,
            served_model_names=tuple(options.served_model_name or ()),
            dtype=options.dtype,
            quantization=options.quantization,
            kv_cache_dtype=options.kv_cache_dtype,
            device=options.device,
            block_size=options.block_size,
            num_kv_blocks=options.num_kv_blocks,
            gpu_memory_utilization=options.gpu_memory_utilization,
            engine=engine,
            host=options.host,
            port=options.port,
            events_port=options.events_port,
            replay_port=options.replay_port,
            api_key=options.api_key or os.environ.get("KVXRAY_TOKEN", ""),
            allowed_hosts=tuple(options.allowed_host or ()),
            source=options.source,
            seed=options.seed,
        )
    )


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="smollm2", help="smollm2, tiny, a GGUF file, or a Hugging Face folder of safetensors"
    )
    parser.add_argument(
        "--served-model-name", nargs="+", metavar="NAME", help="what clients may call the model (else its own name)"
    )
    parser.add_argument(
        "--dtype", default="auto", help="what the model computes in: float32 or bfloat16; auto: float32 on a CPU"
    )
    parser.add_argument("--quantization", help="of the weights: int8; else they are read as they are")
    parser.add_argument("--device", default="auto", choices=DEVICES, help="auto: the GPU where there is one to use")
    parser.add_argument("--max-model-len", type=positive, metavar="N", help="longest prompt and answer, in tokens")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of requests that bring none of their own"
    )


def _add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kv-cache-dtype", default="auto", help=CACHE_DTYPE_HELP)
    parser.add_argument("--block-size", type=positive, default=16, metavar="N", help="tokens of a block")
    parser.add_argument("--num-kv-blocks", type=_blocks, metavar="N", help="size of the cache in blocks")
    parser.add_argument(
        "--gpu-memory-utilization",
        type=_share,
        metavar="SHARE",
        help="size of the cache: what is left of this share of the device's memory; --num-kv-blocks wins",
    )
    parser.add_argument(
        "--enable-prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="share blocks between requests that begin alike",
    )


def _add_scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-num-seqs", type=positive, default=64, metavar="N", help="sequences that run at once")
    parser.add_argument(
        "--max-num-batched-tokens", type=positive, default=512, metavar="N", help="tokens computed in one step"
    )
    parser.add_argument(
        "--scheduling-policy",
        choices=("fcfs", "priority"),
        default="fcfs",
        help="who is served first: who came first, or whose priority is the smallest number",
    )


def _add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; beyond loopback set a token")
    parser.add_argument("--port", type=port_number, default=8000, help="port of the API")
    parser.add_argument("--api-key", metavar="KEY", help="token that every request must show (else KVXRAY_TOKEN)")
    parser.add_argument(
        "--allowed-host", action="append", metavar="NAME", help="a further name of this machine; may be repeated"
    )
    parser.add_argument("--events-port", type=port_number, default=5570, help="port of the events, on loopback")
    parser.add_argument("--replay-port", type=port_number, default=5571, help="port of replay and snapshots")
    parser.add_argument("--fault", action="append", metavar="FAULT", help=FAULT_HELP)
    parser.add_argument("--source", default="engine", metavar="NAME", help="what the stream calls this engine")


def _blocks(text: str) -> int:
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text} blocks are too few: one is the null block, so give at least 2")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share (above 0, at most 1)")
    return number
