"""What an engine says of its own configuration: the labels of its info metrics, or SGLang's server info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.names import Family, canonical

_INFO: Final[Mapping[str, Family]] = {
    "vllm:cache_config_info": "vllm",
    "sglang:cache_config_info": "sglang",
    "trtllm:kv_cache_config_info": "trtllm",
}
# Python's and JSON's words for nothing, as they stand in labels.
_NOTHING: Final = frozenset({"", "None", "null", "none"})
_YES: Final = frozenset({"true", "1", "yes"})
_NO: Final = frozenset({"false", "0", "no"})
MAX_FIELDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Configuration:
    """Fields by the engine's own names, as text; what it does not tell is absent. `engine`: which of several."""

    family: Family
    engine: str
    fields: Mapping[str, str]

    def text(self, *names: str) -> str | None:
        """The first of the fields that says something."""
        found = (self.fields.get(name, "") for name in names)
        return next((value for value in found if value not in _NOTHING), None)

    def number(self, *names: str) -> float | None:
        """The first of the fields that holds a number."""
        for name in names:
            try:
                return float(self.fields.get(name, ""))
            except ValueError:
                continue
        return None

    def flag(self, *names: str) -> bool | None:
        text = (self.text(*names) or "").lower()
        return True if text in _YES else False if text in _NO else None


@dataclass(frozen=True, slots=True)
class PoolShape:
    """`num_blocks`: as the engine counts them; `usable_blocks`: without vLLM's null block, which is never free."""

    num_blocks: int
    block_size: int
    usable_blocks: int

    @property
    def capacity_tokens(self) -> int:
        return self.usable_blocks * self.block_size


def configurations(page: Page) -> tuple[Configuration, ...]:
    """Of every engine that a page tells of; one that tells none of this is not in it."""
    return tuple(
        Configuration(family, sample.labels.get("engine", ""), sample.labels)
        for sample in page.samples
        if sample.value == 1 and (family := _INFO.get(canonical(sample.name) or "")) is not None
    )


def sglang_configuration(server_info: Mapping[str, Any]) -> Configuration:
    """Out of the JSON of `/server_info` (once `/get_server_info`): plain values; what is nested is left out."""
    plain = {
        str(name): str(value)
        for name, value in list(server_info.items())[:MAX_FIELDS]
        if isinstance(value, str | int | float | bool)
    }
    return Configuration("sglang", "", plain)


def pool_shape(configuration: Configuration) -> PoolShape | None:
    """None: it does not tell."""
    block_size = configuration.number("block_size", "page_size", "tokens_per_block")
    num_blocks = configuration.number("num_gpu_blocks", "num_pages", "max_blocks")
    tokens = configuration.number("max_total_num_tokens")
    if num_blocks is None and tokens is not None and block_size:
        num_blocks = tokens // block_size
    if not block_size or not num_blocks or not 0 < block_size < 1e9 or not 0 < num_blocks < 1e12:
        return None
    null_blocks = 1 if configuration.family == "vllm" else 0
    return PoolShape(int(num_blocks), int(block_size), int(num_blocks) - null_blocks)
