"""What signals are called on the page: a few words, with how their number is to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CALLED: Final[Mapping[str, str]] = {
    "ttft": "Time to first token",
    "e2e_latency": "End-to-end latency",
    "itl": "Inter-token latency",
    "kv_usage": "Cache in use",
    "kv_usage_host": "Host cache in use",
    "kv_fetch_by_stage": "KV loads by stage",
    "hit_rate": "Hit rate, device",
    "hit_rate_external": "Hit rate, external",
    "hit_rate_multimodal": "Hit rate, multimodal",
    "hit_rate_tiers": "Hit rate, further tiers",
    "hit_rate_gauge": "Hit rate, as the engine puts it",
    "told_hit_rate": "Hit rate, told back",
    "router_ttft": "Time to first token",
    "router_duration": "Request duration",
    "router_error_rate": "Error rate",
    "router_requests": "Requests",
    "router_errors": "Errors by code",
    "router_best_tokens": "Tokens at the best engine",
    "transfer_time": "Transfer duration",
    "transfer_bytes": "Bytes of a transfer",
    "transfer_read_after_expiry": "Read after expiry",
    "index_socket_errors": "ZMQ errors",
}
_WORDS: Final = {"kv": "KV", "swa": "SWA", "kvbm": "KVBM", "lmcache": "LMCache", "p50": "p50"}


def label_of(name: str) -> str:
    """Of a signal or a ratio."""
    if name in _CALLED:
        return _CALLED[name]
    words = [_WORDS.get(word, word) for word in name.split("_")]
    first = words[0] if words[0] in _WORDS.values() else words[0].capitalize()
    return " ".join([first, *words[1:]])
