"""Benchmarks run, print one JSON object, and keep the names of their figures. What they measure is not judged here."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

import pytest
import torch

from benchmarks import cache_error, compile_kernels

ROOT = Path(__file__).parents[2]

FIGURES = {
    "pool --rounds 2": {
        "blocks_per_s_events_off", "blocks_per_s_events_on", "ratio_events_on_off", "ratio_vllm_events_on",
        "single_block_ratio_events_on_off", "single_block_ratio_vllm_events_on",
    },
    "publish --rounds 2 --steps 8 --running 4 --compute-ms 0.2": {
        "running", "step_ms_off", "ratio_step_publishing_on_off", "ratio_step_off_off", "microseconds_per_step",
    },
    "agents --model none": {
        "max_concurrent_shared", "max_concurrent_unshared", "ratio_concurrent", "ttft_shared_s", "ttft_unshared_s",
    },
    "waste --requests 40": {
        "contiguous_waste_ratio", "buddy_waste_ratio", "paged_waste_ratio", "trace", "max_model_len", "block_size",
    },
    "cache_error --model tiny --tokens 20 --prompts 1 --max-tokens 2": {
        "model", "head_dim", "tokens", "prompts", "max_tokens", "block_size", "formats",
    },
    "trace --requests 40": {"infinite_hit_ratio", "lru_hit_ratio", "replay_hit_ratio", "replay_wall_s"},
}  # fmt: skip


def run(call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict:
    name, *options = call.split()
    monkeypatch.setattr("sys.argv", [name, "--json", *options])
    assert importlib.import_module(f"benchmarks.{name}").main() == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("call", FIGURES)
def test_figures_keep_their_names(
    call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(call, monkeypatch, capsys).keys() >= FIGURES[call]


def test_without_a_peer_its_figures_are_null(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run("pool --rounds 1", monkeypatch, capsys)
    assert (
        result["ratio_vllm_events_on"] is result["single_block_ratio_vllm_events_on"] is result["vllm_version"] is None
    )


def test_a_cache_is_worse_the_fewer_bits_it_has_and_holds_the_more_blocks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run("cache_error --model tiny --tokens 40 --chunk 15 --prompts 1 --max-tokens 2", monkeypatch, capsys)
    formats = result["formats"]
    assert result["tokens"] == 40
    order = ["float32", "float16", "bfloat16", "int8", "fp8_e4m3", "int4"]
    for figure in ("logit_error_relative_rms", "logit_error_mean", "logit_error_max"):
        errors = [formats[name][figure] for name in order]
        assert errors[0] == 0
        assert errors == sorted(set(errors)), figure
    assert formats["float32"]["greedy_agreement_ratio"] == 1
    assert formats["float32"]["greedy_equal_tokens"] == 2
    assert [formats[name]["bytes_per_block"] for name in order] == [8192, 4096, 4096, 2304, 2048, 1536]
    assert formats["int4"]["ratio_blocks_fp16"] == 4096 / 1536


@pytest.mark.parametrize("option", ["--tokens", "--max-tokens"])
def test_the_error_of_a_cache_is_not_measured_beyond_what_the_model_reads(option, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["cache_error", "--model", "tiny", option, "2049"])
    assert cache_error.main() == 2
    told = capsys.readouterr().err
    assert "The model reads and writes 2048 tokens at most" in told
    assert told.rstrip().endswith(f"lower {option}.")


def test_chips_that_no_kernel_is_for_are_refused(monkeypatch, capsys):
    for archs in ("70", "90,", "sm_90"):
        monkeypatch.setattr("sys.argv", ["compile_kernels", "--archs", archs])
        with pytest.raises(SystemExit):
            compile_kernels.main()
        assert "is not a list of chips from 80 on" in capsys.readouterr().err
    assert compile_kernels.archs("90,80,90") == (90, 80)


def test_what_a_model_thinks_of_a_text_is_compared_position_by_position() -> None:
    """Worked by hand: two tokens, of which the first is the more likely by log 3."""
    from benchmarks.measuring.forced_text import Comparison

    comparison = Comparison()
    exact = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
    comparison.add(exact, exact + 5, [0])  # all scores alike higher: the same choice, the same probabilities
    told = comparison.figures()
    assert told["logit_error_max"] == pytest.approx(0, abs=1e-5)
    assert (told["greedy_agreement_ratio"], told["perplexity"]) == (1, pytest.approx(4 / 3))
    comparison.add(exact, exact.flip(-1), [1, 0])  # every choice the other one
    told = comparison.figures()
    assert told["greedy_agreement_ratio"] == 0.5
    assert told["logit_error_max"] == pytest.approx(math.log(3), abs=1e-5)
    assert told["logit_error_relative_rms"] == pytest.approx(math.sqrt(2))  # twice as far off in half the rows
    assert told["perplexity"] == pytest.approx(4 / 3)


def test_sharing_lets_four_times_as_many_agents_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run("agents --model none", monkeypatch, capsys)
    assert (result["max_concurrent_shared"], result["max_concurrent_unshared"]) == (20, 5)


@pytest.mark.parametrize("call", ["waste", "trace"])
def test_a_trace_that_is_not_there_is_one_sentence(
    call: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [call, "--trace", "nowhere.jsonl"])
    assert importlib.import_module(f"benchmarks.{call}").main() == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kvxray: The trace nowhere.jsonl cannot be read")


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")))
def test_every_benchmark_is_documented(name: str) -> None:
    assert f"\n| `{name}` |" in (ROOT / "docs" / "commands.md").read_text()
