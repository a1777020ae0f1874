"""Traces of three kinds, as requests; and every way a file can fail to be one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from kvxray_engine.errors import UserError
from kvxray_engine.traces import TraceRequest, read_trace

FIRST_600 = Path(__file__).parents[1] / "data" / "mooncake_conversation_first600.jsonl.gz"


def write(folder: Path, *lines: object) -> Path:
    path = folder / "trace"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_mooncake(tmp_path: Path) -> None:
    line = {"timestamp": 27, "input_length": 1030, "output_length": 5, "hash_ids": [0, 7, 9]}
    assert read_trace(write(tmp_path, line)) == [TraceRequest(27_000_000, ((0, 512), (7, 512), (9, 6)), 5)]


def test_azure(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,4808,10",
        "2023-11-16 18:17:05.0319600,3180,8",
    )
    assert read_trace(path) == [TraceRequest(0, ((0, 4808),), 10), TraceRequest(1_052_000_000, ((1, 3180),), 8)]


def test_our_own(tmp_path: Path) -> None:
    first = {"arrival_s": 0.5, "prompt": [["system", 40], ["a", 2]], "output_tokens": 3}
    second = {"arrival_s": 0.25, "prompt": [["system", 40], ["b", 1]], "output_tokens": 4}
    trace = read_trace(write(tmp_path, first, second))
    assert [request.arrival_ns for request in trace] == [250_000_000, 500_000_000], "sorted by arrival"
    tokens = [request.prompt_token_ids() for request in trace]
    assert tokens[0][:40] == tokens[1][:40]
    assert tokens[0][40] != tokens[1][40]
    assert [request.prompt_tokens for request in trace] == [41, 42]


def test_the_shipped_slice_and_its_beginning() -> None:
    trace = read_trace(FIRST_600)
    assert len(trace) == 600
    assert sum(request.prompt_tokens for request in trace) == 8_293_542
    assert read_trace(FIRST_600, limit=3) == trace[:3]


GOOD = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Line 2"),
        ("[]", "Line 2"),
        (GOOD | {"hash_ids": [1]}, "600 tokens are not 1 blocks of 512"),
        (GOOD | {"input_length": "many"}, "Line 2"),
        ({"timestamp": 0, "input_length": 600, "hash_ids": [1, 2]}, "it has no 'output_length'"),
        (GOOD | {"output_length": 0}, "below what can be"),
        (GOOD | {"timestamp": -1}, "below what can be"),
        (GOOD | {"input_length": 0, "hash_ids": []}, "Line 2"),
    ],
)
def test_a_bad_line_is_named(line: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Line 2 of the trace") as caught:
        read_trace(write(tmp_path, GOOD, line))
    assert reason in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"[1]\n", b"{}\n", b"\xff\xfe\n"])
def test_what_is_no_trace_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(UserError, match="trace"):
        read_trace(path)


def test_a_missing_or_cut_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_trace(tmp_path / "nowhere.jsonl")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(json.dumps(GOOD).encode() * 50)[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        read_trace(cut)
