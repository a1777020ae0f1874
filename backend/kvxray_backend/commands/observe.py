"""Watch engines of others: vLLM, SGLang, TensorRT-LLM, Dynamo, routers. Name one by where its events are, and what
follows is about it: --vllm tcp://host:5557 --replay tcp://host:5558 --metrics http://host:8000/metrics. Name more in
the same way, or in a file (--config). Serves the page with all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from kvxray_engine.errors import UserError

SUMMARY: Final = "watch vLLM, SGLang, TensorRT-LLM or Dynamo engines, and serve the page"
MAKES: Final = {
    "vllm": "a vLLM engine, and where its events are, such as tcp://host:5557; tcp://*:5557 where it dials out; left "
    "out: its metrics alone",
    "sglang": "an SGLang engine, likewise",
    "trtllm": "a TensorRT-LLM engine, likewise; or http://host:8000/kv_cache_events",
    "dynamo": "Dynamo: metrics of its frontend, or a recording of its router, file:///path.jsonl",
    "router": "a router, which tells metrics alone",
    "other": "any other engine that speaks as vLLM does",
}


class _Tell(argparse.Action):
    """Keeps options in the order in which they were typed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.told = [*(getattr(namespace, "told", None) or []), (self.dest, values)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    def tell(option: str, field: str, help: str, **more: Any) -> None:
        parser.add_argument(option, dest=field, action=_Tell, help=help, default=argparse.SUPPRESS, **more)

    for make, help in MAKES.items():
        tell(f"--{make}", make, help, nargs="?", const="", metavar="ENDPOINT")
    tell("--replay", "replay", "where it answers replay, such as tcp://host:5558", metavar="ENDPOINT")
    tell("--metrics", "metrics", "its metrics page, such as http://host:8000/metrics", metavar="URL")
    tell("--prometheus", "prometheus", "a Prometheus that has its metrics, instead", metavar="URL")
    tell("--match", "match", "a label that chooses it there; may be repeated", type=pair, metavar="LABEL=VALUE")
    tell("--name", "name", "what it is called; else its host", metavar="NAME")
    tell("--label", "labels", "a label of it, such as pod=vllm-0; may be repeated", type=pair, metavar="LABEL=VALUE")
    tell("--ranks", "ranks", "data-parallel ranks, each one port further", type=int, metavar="N")
    tell("--bind", "bind", "listen where its events are instead of dialling it", nargs=0)
    tell("--topic", "topic", "only topics that begin so", metavar="TEXT")
    tell("--every", "every_s", "seconds between two readings of its metrics", type=float, metavar="SECONDS")
    tell("--role", "role", "an engine that only decodes tells no events", choices=("both", "prefill", "decode"))
    tell("--store-semantics", "store_semantics", "what a store of a hash that is there means: another block with it "
         "(copies), a report of its use (reuse), or unknown", choices=("copies", "reuse", "unknown"))  # fmt: skip
    tell("--num-blocks", "num_blocks", "blocks of its cache, where nothing tells", type=int, metavar="N")
    tell("--token-file", "token_file", "a file with the token that its metrics ask for", metavar="FILE")
    tell("--token-env", "token_env", "an environment variable with that token", metavar="NAME")
    tell("--ca-file", "ca_file", "authorities of its certificate", metavar="FILE")
    tell("--dns", "expand", "one engine for each address that its host's name resolves to", nargs=0)
    tell("--file-sd", "file_sd", "many engines, by a list of targets as Prometheus reads one", metavar="FILE")
    tell("--events-port", "events_port", "port of their events, with --file-sd", type=int, metavar="P")
    tell("--replay-port", "replay_port", "port that answers replay, with --file-sd", type=int, metavar="P")
    parser.add_argument(
        "--config",
        action="append",
        metavar="FILE",
        help="a file that names engines (YAML or JSON), read again when it changes; may be repeated",
    )
    parser.add_argument("--host", help="address to listen on; beyond loopback KVXRAY_TOKEN must be set")
    parser.add_argument("--port", type=int, help="port of the page and the API")
    parser.add_argument("--database", metavar="URL", help="where the event log is kept, as a SQLAlchemy URL")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.commands.serve import serve
    from kvxray_backend.observed.spec import ObserveSpec
    from kvxray_backend.observed.typed_engines import typed_engines
    from kvxray_backend.settings import load_settings

    engines = typed_engines(getattr(options, "told", None) or [], MAKES)
    chosen = {"host": options.host, "port": options.port, "database_url": options.database, "observe": options.config}
    chosen["engines"] = tuple(engines) or None
    settings = load_settings(**{setting: value for setting, value in chosen.items() if value is not None})
    if not settings.engines and not settings.observe:
        raise UserError("Name an engine to watch, such as --vllm tcp://host:5557, or --config FILE with some.")
    for entry in settings.engines:
        if isinstance(entry, ObserveSpec):
            where = entry.events or entry.metrics or entry.prometheus
            sys.stderr.write(f"kvxray observe: watching {entry.name} at {where}\n")
    return serve(settings, announce="kvxray observe")


def pair(text: str) -> tuple[str, str]:
    """LABEL=VALUE."""
    label, equals, value = text.partition("=")
    if not equals or not label:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=VALUE")
    return label, value
