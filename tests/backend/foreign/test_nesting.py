"""Payloads that nest without end do not end the process, whatever its recursion limit is."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.sources.foreign import nesting
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.nesting import MAX_DEPTH, json_depth, msgpack_depth

from tests.backend.foreign.json_samples import DYNAMO_LINES, TRTLLM_EVENTS
from tests.backend.foreign.payloads import GOLDEN, RECORDINGS, frames

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.sampled_from(["", "[[{", '"\\', "x" * 40, "y" * 300, "z" * 70_000]),
)
BYTES = st.sampled_from([b"", b"\x91" * 40, b"\x81" * 300, b"\xdd" * 70_000])
EXTENSIONS = st.sampled_from([msgspec.msgpack.Ext(5, b"\x91" * size) for size in (0, 1, 2, 4, 8, 16, 17, 300, 70_000)])


def nested(scalars):
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.sampled_from("ab["), inner),
        max_leaves=40,
    )


def depth(value):
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


@given(nested(SCALARS | BYTES | EXTENSIONS))
def test_the_depth_of_msgpack_is_told_without_decoding_it(value) -> None:
    assert msgpack_depth(msgspec.msgpack.encode(value)) == depth(value)


@given(nested(SCALARS.filter(lambda value: not isinstance(value, float))))
def test_the_depth_of_json_is_told_without_decoding_it(value) -> None:
    assert json_depth(json.dumps(value).encode()) == depth(value)


@pytest.mark.parametrize("size", [300, 100_000])
def test_counting_stops_where_it_is_too_deep_anyway(size: int) -> None:
    assert msgpack_depth(b"\x91" * size) == MAX_DEPTH + 1
    assert msgpack_depth(b"\xdd\xff\xff\xff\xff" * size) == MAX_DEPTH + 1
    assert json_depth(b"[" * size) == json_depth(b'{"a":' * size) == MAX_DEPTH + 1


def test_what_engines_send_is_far_from_too_deep() -> None:
    payloads = [*GOLDEN.values(), *(payload for path in RECORDINGS for payload in frames(path))]
    assert max(map(msgpack_depth, payloads)) <= 5
    assert max(map(json_depth, TRTLLM_EVENTS + DYNAMO_LINES)) <= 7


def test_what_is_too_deep_is_refused_where_the_interpreter_would_go_on(monkeypatch) -> None:
    monkeypatch.setattr(nesting, "SAFE_LIMIT", 100)
    fits, too_deep = (msgspec.msgpack.encode([1.0, [], 0, msgspec.Raw(b"\x91" * n + b"\xc0")]) for n in (200, 300))
    assert decode_batch(fits).events == ()
    with pytest.raises(BadBatch, match="too deep"):
        decode_batch(too_deep)


def test_the_process_lives_on_under_a_recursion_limit_that_its_stack_does_not_bear() -> None:
    program = """
import sys
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

sys.setrecursionlimit(10_000_000)
deep = (b"[" * 3_000_000, b'{"a":' * 3_000_000, b"x\\n" + b'{"event":' * 1_000_000)
for decode, payload in ((decode_batch, b"\\x93\\x01" + b"\\x91" * 10_000_000),
                        *((one().decode, payload) for one in (TrtllmEvents, DynamoEvents) for payload in deep)):
    try:
        decode(payload)
    except BadBatch:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["refused"] * 7, "")
