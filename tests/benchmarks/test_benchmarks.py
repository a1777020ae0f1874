"""Benchmarks run, print one JSON object, and keep the names of their figures. What they measure is not judged here."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

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
