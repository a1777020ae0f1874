"""`kvxray calc` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kvxray_backend.cli import main


def calc(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["calc", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_shape_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("--layers", "80", "--kv-heads", "8", "--head-dim", "128", "--dtype", "fp16", "--tokens", "32768")
    result = calc(capsys, *shape)
    assert (result["bytes"], result["gib"], result["bytes_per_token"]) == (10_737_418_240, 10.0, 327_680)
    assert (result["mha_bytes"], result["model"]) == (None, None)
    assert calc(capsys, *shape, "--batch", "3")["bytes"] == 3 * 10_737_418_240
    assert calc(capsys, *shape, "--heads", "64")["mha_bytes"] == 85_899_345_920


def test_a_known_model(capsys: pytest.CaptureFixture[str]) -> None:
    result = calc(capsys, "--model", "llama-2-70b", "--tokens", "32768")
    assert (result["bytes"], result["gb"]) == (10_737_418_240, 10.73741824)
    assert (result["mha_bytes"], result["mha_gib"], result["ratio_mha"]) == (85_899_345_920, 80.0, 8.0)
    assert "gpu" not in result


def test_a_config_in_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fields = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    result = calc(capsys, "--model", str(tmp_path), "--tokens", "10", "--dtype", "float32")
    assert (result["bytes"], result["dtype"], result["ratio_mha"]) == (10 * 2 * 2 * 16 * 4, "fp32", 4.0)


def test_what_fits_a_gpu_beside_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = calc(capsys, "--model", "llama-3.1-8b", "--tokens", "8000", "--gpu-memory", "80GiB")["gpu"]
    assert gpu["weights_bytes"] == 2 * 8_030_261_248
    assert gpu["kv_bytes"] == int(80 * 2**30 * 0.9) - gpu["weights_bytes"]
    assert gpu["requests"] == gpu["kv_bytes"] // (8000 * 131_072) == 58
    assert gpu["num_blocks"] == gpu["kv_bytes"] // (16 * 131_072)


def test_weights_that_do_not_fit_leave_no_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert calc(capsys, "--model", "llama-2-70b", "--gpu-memory", "80GB")["gpu"]["requests"] == 0
    assert main(["calc", "--model", "llama-2-70b", "--gpu-memory", "80GB"]) == 0
    assert "The weights alone" in capsys.readouterr().out


def test_the_size_of_the_weights_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--layers", "1", "--kv-heads", "1", "--head-dim", "8", "--gpu-memory", "1GB", "--weights", "0.5GB")
    assert calc(capsys, *arguments, "--gpu-memory-utilization", "1")["gpu"]["kv_bytes"] == 500_000_000


SENTENCES = {
    "llama-2-70b --tokens 32768": ["10,737,418,240 bytes = 10.74 GB = 10.00 GiB", "64 kv heads: 85,899,345,920 bytes"],
    "mistral-7b-v0.1": ["32 of them keep 4,096 tokens"],
    "deepseek-v3": ["a latent vector of 576 (MLA)", "a token: 70,272 bytes"],
    "smollm2-135m --gpu-memory 4GiB": ["of weights there is room for", "requests of 4,096 tokens"],
}


@pytest.mark.parametrize("arguments", SENTENCES)
def test_sentences(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calc", "--model", *arguments.split()]) == 0
    out = capsys.readouterr().out
    assert all(words in out for words in SENTENCES[arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--layers", "80"],
        ["--model", "no-such-model"],
        ["--model", "llama-2-7b", "--layers", "3"],
        ["--layers", "1", "--kv-heads", "3", "--head-dim", "8", "--heads", "8"],
        ["--layers", "1", "--kv-heads", "1", "--head-dim", "8", "--gpu-memory", "80GiB"],
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calc", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kvxray: ")
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--layers", "0"],
        ["--tokens", "many"],
        ["--dtype", "fp7"],
        ["--gpu-memory", "80"],
        ["--gpu-memory-utilization", "1.5"],
        ["--gpu-memory-utilization", "nan"],
    ],
)
def test_numbers_out_of_range_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calc", *arguments])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
