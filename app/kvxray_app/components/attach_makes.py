"""What each make of engine must be told so that it tells of its cache, and where it then does.

Words of the attach page. Commands are as the engines' own releases take them; they name ports that their
documentation uses.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvxray_app.components.fleet import MAKES

_EVENTS = '"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"'


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do at the engine: why, and what to type."""

    why: str
    text: str


@dataclass(frozen=True, slots=True)
class Make:
    """One button. tells: what becomes visible. events, replay, metrics: examples for the fields; empty: the make has
    none. note: what else surprises people.
    """

    key: str
    tells: str
    steps: tuple[Step, ...]
    events: str
    replay: str
    metrics: str
    note: str = ""


ATTACHABLE: tuple[Make, ...] = (
    Make(
        "vllm",
        "Its cached prefixes block by block, from its events; the cache in use, hit rate and queues from its metrics.",
        (
            Step(
                "Add this to vllm serve; its metrics are on already.",
                f'--kv-events-config \'{{"enable_kv_cache_events": true, "publisher": "zmq", {_EVENTS}, '
                '"topic": "kv-events"}\'',
            ),
        ),
        "tcp://HOST:5557",
        "tcp://HOST:5558",
        "http://HOST:8000/metrics",
        "Data-parallel rank 1 uses the next port, and so on. An engine whose endpoint names a host instead of * dials "
        "out: then kvxray has to listen (below, seldom needed).",
    ),
    Make(
        "sglang",
        "Its cached prefixes block by block, from its events; the cache in use, hit rate and queues from its metrics.",
        (
            Step(
                "Add both to the launch of the server: the events, and the metrics.",
                f'--enable-metrics --kv-events-config \'{{"publisher": "zmq", {_EVENTS}}}\'',
            ),
        ),
        "tcp://HOST:5557",
        "tcp://HOST:5558",
        "http://HOST:30000/metrics",
        "Data-parallel rank 1 uses the next port, and so on.",
    ),
    Make(
        "trtllm",
        "Its cached blocks on GPU and host, from its events; the cache in use and reuse from its metrics.",
        (
            Step(
                "Put this into the YAML file that trtllm-serve gets with --extra_llm_api_options.",
                "enable_iter_perf_stats: true\nreturn_perf_metrics: true\nkv_cache_config:\n"
                "  enable_block_reuse: true\n  event_buffer_max_size: 16384",
            ),
        ),
        "http://HOST:8000/kv_cache_events",
        "tcp://HOST:5558",
        "http://HOST:8000/prometheus/metrics",
        "Events asked for over HTTP go to whoever asks first: let nobody else ask. Where kv_cache_config has a "
        "kv_events_config, it publishes as vLLM does: then write tcp://HOST:5557, and only then is there a replay.",
    ),
    Make(
        "dynamo",
        "Each worker's cached prefixes, from the events of the engine in it; its metrics from the worker's own port.",
        (
            Step(
                "Add this to a vLLM or SGLang worker (attach each worker by itself).",
                f'--kv-events-config \'{{"enable_kv_cache_events": true, "publisher": "zmq", {_EVENTS}}}\'',
            ),
            Step("Set this for the worker, so that it serves metrics.", "DYN_SYSTEM_PORT=8081"),
        ),
        "tcp://HOST:5557",
        "tcp://HOST:5558",
        "http://HOST:8081/metrics",
        "An SGLang worker knows no enable_kv_cache_events: leave it out there.",
    ),
    Make(
        "router",
        "What a router says of the caches behind it: lookups, predicted hits, what it heard. It has no cache itself.",
        (Step("Nothing to switch on: give the address of its metrics page.", ""),),
        "",
        "",
        "http://HOST:9090/metrics",
    ),
    Make(
        "other",
        "Whatever it tells: events in the form that vLLM publishes, metrics in Prometheus' form, or one of both.",
        (Step("It publishes over ZMQ as vLLM does, or has a metrics page; one of both is enough.", ""),),
        "tcp://HOST:5557",
        "tcp://HOST:5558",
        "http://HOST:8000/metrics",
    ),
)


def makes() -> list[dict[str, Any]]:
    """As the component takes them, each with its name."""
    return [{**asdict(make), "label": MAKES[make.key]} for make in ATTACHABLE]
