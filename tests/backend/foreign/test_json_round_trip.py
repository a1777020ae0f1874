"""Whatever TensorRT-LLM or Dynamo tell as JSON comes out as it went in."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.told import Cleared, Place, Removed, Stored
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

from tests.backend.foreign.json_samples import dynamo, dynamo_block, trtllm, trtllm_block, trtllm_stored, written
from tests.backend.foreign.payloads import eight

NUMBERS = st.integers(-(2**63), 2**64 - 1)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
BLOCKS = st.lists(st.tuples(NUMBERS | HEX, st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=8)


def canonical(told):
    return bytes.fromhex(told) if isinstance(told, str) else eight(told)


@given(BLOCKS, st.none() | NUMBERS, st.integers(0, 2**40))
def test_the_blocks_of_a_store_come_out_in_their_order_each_the_child_of_the_one_before(blocks, parent, number) -> None:
    sent = trtllm_stored(*(trtllm_block(one, range(size), level) for one, size, level in blocks), parent=parent)
    (batch,) = TrtllmEvents().decode(json.dumps(trtllm(number, sent)).encode())
    flat = [(one, run.block_size, run.place.medium) for run in batch.events for one in run.hashes]
    assert flat == [(canonical(one), size, ("GPU", "CPU")[level]) for one, size, level in blocks]
    ends = [None if parent is None else canonical(parent), *(run.hashes[-1] for run in batch.events)]
    assert [run.parent for run in batch.events] == ends[:-1]
    assert sum(run.num_tokens for run in batch.events) == sum(size for _, size, _ in blocks)
    assert (batch.event_id, bool(batch.oddities)) == (number, False)


@given(st.lists(NUMBERS, max_size=8), st.none() | NUMBERS, st.sampled_from(["device", "host_pinned", "disk"]))
def test_lines_of_a_recording_come_out_as_they_were(hashes, parent, tier) -> None:
    stored = {"stored": {"parent_hash": parent, "blocks": [dynamo_block(one, 1) for one in hashes]}}
    data = [stored, {"removed": {"block_hashes": hashes}}, "cleared"]
    batches = DynamoEvents().decode(b"\n".join(written(*(dynamo(one, storage_tier=tier) for one in data))))
    told = tuple(map(eight, hashes))
    assert [batch.events for batch in batches] == [
        (Stored(told, None if parent is None else eight(parent), 0, None, Place(tier)),),
        (Removed(told, Place(tier), is_any_group=True),),
        (Cleared(tier),),
    ]
