"""Names of metrics as they travel: `vllm:x` is `ray_vllm:x`, `ray_vllm_x`, `vllm.x` or `vllm_x` elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, get_args

Family = Literal["vllm", "sglang", "trtllm", "dynamo", "lmcache", "router"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

# Of llm-d's router: its endpoint picker by its names of today and before, and the index in it by its own.
_ROUTER: Final = "llm_d_epp|llm_d_router_epp|kvcache|inference_objective|inference_model|inference_pool"
_SPELLED: Final = re.compile(rf"(?:ray_)?(vllm|sglang|trtllm|lmcache_mp|lmcache|dynamo|{_ROUTER})[:._](.+)")
_FAMILY_OF: Final[dict[str, Family]] = {
    "vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "dynamo": "dynamo",
    "lmcache": "lmcache", "lmcache_mp": "lmcache", **dict.fromkeys(_ROUTER.split("|"), "router"),
}  # fmt: skip


@lru_cache(maxsize=4096)
def canonical(name: str) -> str | None:
    """`vllm:kv_cache_usage_perc` for every spelling of it; None for the metrics of nobody we know."""
    found = _SPELLED.fullmatch(name)
    return f"{found[1]}:{found[2].replace('.', '_')}" if found else None


def family_of(canonical_name: str) -> Family:
    """Of a name that `canonical` gave."""
    return _FAMILY_OF[canonical_name.partition(":")[0]]


def families_in(names: Iterable[str]) -> tuple[Family, ...]:
    """Who speaks on a page, in the order of the table of signals."""
    found = {family_of(known) for name in set(names) if (known := canonical(name)) is not None}
    return tuple(family for family in FAMILIES if family in found)


def any_spelling(prefix: str, rests: Iterable[str]) -> str:
    """A pattern of every spelling of these metrics of one prefix, for a Prometheus that may hold any."""
    return f"(ray_)?{prefix}[:._]({'|'.join(sorted(rests))})"
