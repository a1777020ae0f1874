"""Why a prefix cache does nothing though nobody switched it off: each reason that is known, looked for in what the
engine says of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from kvxray_backend.metrics.configuration import Configuration, pool_shape


@dataclass(frozen=True, slots=True)
class Reason:
    """`code` names it for good (`config:CODE` among findings). `does_nothing`: no prefix can hit at all, rather than
    fewer than one would think.
    """

    code: str
    does_nothing: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is known beside the configuration, to judge it by; None: not known.

    mean_prompt_tokens: of recent requests. max_model_len: the longest request that the engine takes. spec_kinds: kinds
    of its KV cache groups, as its events tell them. queries, hits: tokens looked up and found, in the same time.
    block_size: tokens a block by its events, where the configuration tells none.
    """

    mean_prompt_tokens: float | None = None
    max_model_len: float | None = None
    spec_kinds: Collection[str] = ()
    queries: float | None = None
    hits: float | None = None
    block_size: float | None = None

    @property
    def never_hits(self) -> bool:
        return bool(self.queries) and self.hits == 0


def check_configuration(configuration: Configuration, traffic: Traffic | None = None) -> tuple[Reason, ...]:
    """The reasons that hold, those that explain most first; empty: none of the known ones."""
    traffic = traffic or Traffic()
    return tuple(reason for rule in _RULES for reason in [rule(configuration, traffic)] if reason is not None)


def check_block_size(traffic: Traffic) -> Reason | None:
    """For an engine that tells no configuration: blocks by its events against what is looked up."""
    if not traffic.never_hits or traffic.block_size is None:
        return None
    return _longer_than_prompts(traffic.block_size, traffic)


def _off(configuration: Configuration, traffic: Traffic) -> Reason | None:
    off = (
        configuration.flag("enable_prefix_caching") is False
        or configuration.flag("enable_block_reuse") is False
        or configuration.flag("disable_radix_cache") is True
    )
    if not off:
        return None
    return Reason("prefix_caching_off", True, "prefix caching is switched off: no request ever finds another's blocks")


def _attention_free(configuration: Configuration, traffic: Traffic) -> Reason | None:
    if configuration.flag("is_attention_free") is not True:
        return None
    return Reason(
        "attention_free", True, "the model has no attention, so there are no blocks whose prefix could be found"
    )


def _no_pool(configuration: Configuration, traffic: Traffic) -> Reason | None:
    shape = pool_shape(configuration)
    if (
        traffic.hits
        or shape is None
        or traffic.mean_prompt_tokens is None
        or traffic.mean_prompt_tokens <= shape.capacity_tokens
    ):
        return None
    return Reason(
        "pool_smaller_than_prompt",
        True,
        f"the pool has room for {shape.capacity_tokens:,} tokens and prompts have {traffic.mean_prompt_tokens:,.0f} on "
        f"average: what one leaves behind is gone before the next one comes",
    )


def granule(configuration: Configuration) -> float | None:
    """Tokens that a hit comes in: a prefix shorter than that is never found. Hybrid models raise the block size to fit
    their Mamba states, and hits may have to end where the blocks of all groups end.
    """
    told = [
        configuration.number(name)
        for name in (
            "block_size",
            "effective_attention_block_size",
            "cache_hit_alignment_tokens",
            "prefix_match_unit",
            "page_size",
            "tokens_per_block",
        )
    ]
    return max((number for number in told if number is not None and 0 < number < 1e12), default=None)


def _block_beyond_model_length(configuration: Configuration, traffic: Traffic) -> Reason | None:
    tokens = granule(configuration)
    longest = traffic.max_model_len or configuration.number("context_length", "max_model_len")
    if tokens is None or longest is None or tokens <= longest:
        return None
    return Reason(
        "block_larger_than_model_length",
        True,
        f"a hit needs {tokens:,.0f} tokens and no request may have more than {longest:,.0f}: no block is ever full",
    )


def _block_beyond_prompts(configuration: Configuration, traffic: Traffic) -> Reason | None:
    tokens = granule(configuration)
    return _longer_than_prompts(tokens, traffic) if tokens is not None else None


def _longer_than_prompts(tokens: float, traffic: Traffic) -> Reason | None:
    mean = traffic.mean_prompt_tokens
    if traffic.hits:
        return None
    if mean is not None and mean < tokens:
        return Reason(
            "prefix_shorter_than_block",
            True,
            f"a hit needs {tokens:,.0f} tokens and prompts have {mean:,.0f} on average: only whole blocks are cached",
        )
    if mean is None and traffic.never_hits and tokens > LARGE_BLOCK:
        return Reason(
            "prefix_shorter_than_block",
            True,
            f"a hit needs {tokens:,.0f} tokens, and none of {traffic.queries:,.0f} looked up was found: beginnings "
            f"that are shorter are never cached",
        )
    return None


def _mamba_not_cached(configuration: Configuration, traffic: Traffic) -> Reason | None:
    if configuration.text("mamba_cache_mode") is not None or "mamba" not in traffic.spec_kinds:
        return None
    if "mamba_cache_mode" not in configuration.fields:
        return None
    return Reason(
        "mamba_states_not_cached",
        True,
        "the model has Mamba layers whose states are not cached (mamba_cache_mode is none), so no prefix can be used",
    )


def _mamba_align(configuration: Configuration, traffic: Traffic) -> Reason | None:
    if configuration.text("mamba_cache_mode") != "align":
        return None
    return Reason(
        "mamba_align",
        False,
        "Mamba states are kept only where a block of every group ends (mamba_cache_mode is align): a prefix that ends "
        "before that, or whose only checkpoint lies in the tokens of one request, is not found",
    )


def _checkpoints_only(configuration: Configuration, traffic: Traffic) -> Reason | None:
    if configuration.text("mamba_cache_mode") != "align" or configuration.number(_RETENTION) != 0:
        return None
    return Reason(
        "only_checkpoints_kept",
        False,
        f"of each prompt only the last states are kept ({_RETENTION} is 0): one that leaves it earlier finds nothing",
    )


def _private_hashes(configuration: Configuration, traffic: Traffic) -> Reason | None:
    algorithm = configuration.text("prefix_caching_hash_algo")
    if algorithm is None or algorithm.startswith("sha256"):
        return None
    return Reason(
        "hashes_of_one_process",
        False,
        f"blocks are hashed with {algorithm}, whose seed is this process's own unless PYTHONHASHSEED is set: no other "
        f"engine, no shared store and no restart finds its blocks",
    )


def _decode_role(configuration: Configuration, traffic: Traffic) -> Reason | None:
    if configuration.text("disaggregation_mode") != "decode":
        return None
    return Reason(
        "decode_role",
        False,
        "this engine only decodes: prompts are looked up where they are prefilled, so its hit rate says nothing",
    )


# Blocks of attention alone have up to this many tokens; what is larger was made so for Mamba states.
LARGE_BLOCK: Final = 128
_RETENTION: Final = "prefix_cache_retention_interval"
_Rule = Callable[[Configuration, Traffic], Reason | None]
_RULES: Final[tuple[_Rule, ...]] = (
    _off,
    _attention_free,
    _no_pool,
    _block_beyond_model_length,
    _block_beyond_prompts,
    _mamba_not_cached,
    _mamba_align,
    _checkpoints_only,
    _decode_role,
    _private_hashes,
)
