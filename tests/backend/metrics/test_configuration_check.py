"""Why a prefix cache does nothing, by what the engine says of its configuration."""

from __future__ import annotations

from typing import Any

import pytest
from kvxray_backend.metrics.configuration import Configuration, configurations, pool_shape, sglang_configuration
from kvxray_backend.metrics.configuration_check import Traffic, check_block_size, check_configuration
from kvxray_backend.metrics.exposition import parse_page

from tests.backend.metrics.pages import page, recorded_body

MISSED = Traffic(queries=100_000, hits=0)


def vllm(**fields: str) -> Configuration:
    return Configuration(
        "vllm", "0", {"enable_prefix_caching": "True", "block_size": "16", "num_gpu_blocks": "1000"} | fields
    )


def codes(configuration: Configuration, traffic: Traffic | None = None) -> list[str]:
    return [reason.code for reason in check_configuration(configuration, traffic)]


def test_the_recorded_server_has_no_reason_not_to_hit() -> None:
    (configuration,) = configurations(parse_page(recorded_body()))
    assert codes(configuration, Traffic(mean_prompt_tokens=3924 / 22, queries=4025, hits=1632)) == []
    shape = pool_shape(configuration)
    assert (shape.num_blocks, shape.block_size, shape.usable_blocks) == (24, 32, 23)
    assert shape.capacity_tokens == 736


@pytest.mark.parametrize(
    ("configuration", "traffic", "code"),
    [
        (vllm(enable_prefix_caching="False"), None, "prefix_caching_off"),
        (Configuration("trtllm", "", {"enable_block_reuse": "false"}), None, "prefix_caching_off"),
        (sglang_configuration({"disable_radix_cache": True}), None, "prefix_caching_off"),
        (vllm(is_attention_free="True"), None, "attention_free"),
        (vllm(block_size="8320"), Traffic(max_model_len=4096), "block_larger_than_model_length"),
        (sglang_configuration({"page_size": 64, "context_length": 32}), None, "block_larger_than_model_length"),
        (vllm(block_size="528"), Traffic(mean_prompt_tokens=480), "prefix_shorter_than_block"),
        (vllm(block_size="784"), MISSED, "prefix_shorter_than_block"),
        (vllm(cache_hit_alignment_tokens="4096"), Traffic(mean_prompt_tokens=2048), "prefix_shorter_than_block"),
        (vllm(num_gpu_blocks="11"), Traffic(mean_prompt_tokens=300), "pool_smaller_than_prompt"),
        (vllm(mamba_cache_mode="none"), Traffic(spec_kinds={"mamba"}), "mamba_states_not_cached"),
        (vllm(mamba_cache_mode="align"), None, "mamba_align"),
        (vllm(mamba_cache_mode="align", prefix_cache_retention_interval="0"), None, "only_checkpoints_kept"),
        (vllm(prefix_caching_hash_algo="xxhash"), None, "hashes_of_one_process"),
        (sglang_configuration({"disaggregation_mode": "decode"}), None, "decode_role"),
    ],
)
def test_each_known_reason_is_found_and_said(configuration: Configuration, traffic: Traffic | None, code: str) -> None:
    (reason,) = [reason for reason in check_configuration(configuration, traffic) if reason.code == code]
    assert len(reason.sentence.split()) > 5
    assert "\n" not in reason.sentence


@pytest.mark.parametrize(
    ("configuration", "traffic"),
    [
        (vllm(), MISSED),
        (vllm(mamba_cache_mode="none"), None),
        (vllm(mamba_cache_mode="none", prefix_cache_retention_interval="0"), Traffic(spec_kinds={"full_attention"})),
        (vllm(prefix_caching_hash_algo="sha256_cbor"), None),
        (vllm(block_size="784"), Traffic(mean_prompt_tokens=480, queries=1000, hits=784)),
        (vllm(block_size="784"), Traffic(queries=0, hits=0)),
        (vllm(block_size="None", num_gpu_blocks="None"), Traffic(mean_prompt_tokens=3)),
        (sglang_configuration({"disable_radix_cache": False, "page_size": 1, "disaggregation_mode": "null"}), MISSED),
    ],
)
def test_what_may_well_hit_has_no_reason(configuration: Configuration, traffic: Traffic | None) -> None:
    assert codes(configuration, traffic) == []


def test_blocks_of_events_judge_where_no_configuration_is_told() -> None:
    assert check_block_size(Traffic(queries=100, hits=0, block_size=784)).code == "prefix_shorter_than_block"
    assert check_block_size(Traffic(queries=100, hits=1, block_size=784)) is None
    assert check_block_size(Traffic(queries=100, hits=0, block_size=16)) is None
    assert check_block_size(Traffic(queries=100, hits=0)) is None


def test_each_engine_of_a_page_has_a_configuration_of_its_own() -> None:
    line = 'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}",engine="{engine}"}} 1\n'
    text = line.format(blocks=100, engine=0) + line.format(blocks=200, engine=1)
    assert [(one.engine, pool_shape(one).num_blocks) for one in configurations(page(text))] == [("0", 100), ("1", 200)]


@pytest.mark.parametrize(
    "info", [{}, {"page_size": "x"}, {"page_size": 0, "max_total_num_tokens": 5}, {"page_size": [1], "a": {"b": 1}}]
)
def test_nonsense_in_a_server_info_tells_no_pool(info: dict[str, Any]) -> None:
    assert pool_shape(sglang_configuration(info)) is None


def test_sglang_tells_its_pool_in_tokens() -> None:
    shape = pool_shape(sglang_configuration({"page_size": 16, "max_total_num_tokens": 1600}))
    assert (shape.num_blocks, shape.usable_blocks, shape.capacity_tokens) == (100, 100, 1600)
