"""The decode benchmark: how its figures follow from times, and that all variants compute the same tokens."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import decode

SMALL = "--model tiny --rounds 2 --steps 3 --prompt-tokens 20 --agents 3 --prefix-tokens 64 --own-tokens 5"
SECONDS = {
    "batch_1": [[0.1, 0.1, 0.5], [0.2, 0.2, 0.2]],
    "batch_4": [[0.2] * 3, [0.2] * 3],
    "batch_16": [[0.4] * 3, [0.2] * 3],
    "agents_shared": [[0.5] * 3, [0.5] * 3],
    "agents_unshared": [[1.0] * 3, [2.0] * 3],
    "transformers_batch_1": [[0.2] * 3, [0.3] * 3],
}


@pytest.fixture(autouse=True)
def _small_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MIN_SWEEP_BYTES", 4096)


def run(options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict:
    monkeypatch.setattr(sys, "argv", ["decode", "--json", *options.split()])
    assert decode.main() == 0
    return json.loads(capsys.readouterr().out)


def test_figures_are_medians_and_ratios_are_taken_within_a_round() -> None:
    found = decode.figures(SECONDS, num_agents=20, read_bytes=1_000_000, bandwidths=[2e7, 1e7])
    assert found["tokens_per_s_batch_1"] == pytest.approx(1 / 0.2)
    assert found["tokens_per_s_batch_16"] == pytest.approx(16 / 0.3, rel=1e-3)
    assert found["tokens_per_s_agents_shared"] == 40
    assert found["ratio_batch_16_over_1"] == pytest.approx((40 / 10 + 80 / 5) / 2)
    assert found["ratio_agents_shared_unshared"] == pytest.approx((2 + 4) / 2)
    assert found["ratio_transformers_batch_1"] == pytest.approx((10 / 5 + 5 / (1 / 0.3)) / 2)
    assert found["ratio_transformers_batch_4"] is found["ratio_llama_cpp_batch_1"] is None
    # The floor of a round: 1 MB at 20 MB/s is 0.05 s of 0.1 s, at 10 MB/s 0.1 s of 0.2 s.
    assert found["share_of_bandwidth_floor"] == pytest.approx(0.5)
    assert found["read_bandwidth_gb_s"] == pytest.approx(0.015)
    assert found["weight_bytes"] == 1_000_000


def test_all_variants_write_the_same_tokens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(SMALL, monkeypatch, capsys)
    assert result["agents_tokens_equal"] is True
    assert result["transformers_tokens_equal"] is True
    assert result["ratio_transformers_batch_16"] > 0
    assert result["share_of_bandwidth_floor"] > 0
    assert (result["model"], result["agents"], result["prefix_tokens"], result["steps"]) == ("tiny", 3, 64, 3)


def test_without_peers_and_with_int8_weights(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(f"{SMALL} --no-peers --quantization int8", monkeypatch, capsys)
    assert result["transformers_tokens_equal"] is result["ratio_transformers_batch_1"] is None
    assert result["quantization"] == "int8"
    plain = run(f"{SMALL} --no-peers", monkeypatch, capsys)
    assert result["weight_bytes"] < 0.5 * plain["weight_bytes"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--prefix-tokens 70", "--prefix-tokens is a multiple of 16"),
        ("--threads 0", "--threads is at least 1"),
        ("--gguf nowhere.gguf", "--gguf names no file: nowhere.gguf"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    options: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["decode", *options.split()])
    with pytest.raises(SystemExit):
        decode.main()
    assert sentence in capsys.readouterr().err


def test_sequences_longer_than_the_model_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["decode", "--model", "tiny", "--prefix-tokens", "2032", "--own-tokens", "14"])
    assert decode.main() == 2
    assert "2048 tokens at most, and 2062 are asked for" in capsys.readouterr().err
