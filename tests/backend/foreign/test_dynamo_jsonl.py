"""Lines of Dynamo's recorder, as batches."""

from __future__ import annotations

import io

import pytest
from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES, BadBatch
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Cleared, Place, Removed, Stored

from tests.backend.foreign.json_samples import DYNAMO_LINES, dynamo, dynamo_block, written
from tests.backend.foreign.payloads import eight


def test_a_recording_tells_stores_removals_and_clears() -> None:
    batches = list(DynamoEvents().read(io.BytesIO(b"\n".join(DYNAMO_LINES))))
    assert [batch.events for batch in batches] == [
        (Stored((eight(1), eight(2)), None, 0, None, Place("device")),),
        (Stored((eight(-3),), eight(2), 0, None, Place("device")),),
        (Removed((eight(-3), eight(2)), Place("host_pinned"), is_any_group=True),),
        (Cleared("device"),),
    ]
    assert not any(batch.oddities for batch in batches)
    assert [batch.event_id for batch in batches] == [0, 1, 2, 3]
    assert {(batch.worker, batch.rank) for batch in batches} == {(7, 0)}
    assert batches == DynamoEvents().decode(b"\n".join(DYNAMO_LINES))


def test_a_timestamp_is_time_since_the_recording_began_and_no_wall_clock() -> None:
    (batch,) = DynamoEvents().decode(written(dynamo("cleared", timestamp=1_500))[0])
    assert (batch.ts, batch.elapsed_s) == (None, 1.5)


@pytest.mark.parametrize(
    ("tier", "means"), [("device", "GPU"), ("host_pinned", "CPU"), ("disk", "DISK"), ("external", "REMOTE")]
)
def test_each_tier_is_a_medium(tier: str, means: str) -> None:
    (batch,) = DynamoEvents().decode(written(dynamo("cleared", storage_tier=tier))[0])
    assert batch.events == (Cleared(tier),)
    assert tier_of(tier) == means


def test_a_line_without_a_tier_or_a_rank_is_of_the_device_and_the_first() -> None:
    line = b'{"timestamp":0,"event":{"worker_id":1,"event":{"event_id":5,"data":{"removed":{"block_hashes":[1]}}}}}'
    (batch,) = DynamoEvents().decode(line)
    assert (batch.rank, batch.events[0].place) == (0, Place("device"))


def test_hashes_of_tokens_are_keyed_and_chained() -> None:
    def digests(*blocks, key=b"key", parent=None):
        data = {"stored": {"parent_hash": parent, "blocks": [dynamo_block(*block) for block in blocks]}}
        (batch,) = DynamoEvents(TokenChains(key)).decode(written(dynamo(data))[0])
        return batch.events[0].token_digests

    one = digests((1, 11), (2, 12))
    assert one == digests((7, 11), (8, 12))
    assert len(set(one) | set(digests((1, 12), (2, 12))) | set(digests((1, 11), (2, 12), key=b"other"))) == 6
    assert digests((1, 11), parent=9) not in (one[:1], digests((1, 11), parent=8))


def test_a_bad_line_costs_a_counter_and_the_rest_is_kept() -> None:
    lines = [DYNAMO_LINES[0], b"{", b"7", DYNAMO_LINES[3][:-5], DYNAMO_LINES[3]]
    batches = DynamoEvents().decode(b"\n".join(lines))
    assert [batch.oddities.bad_events for batch in batches] == [0, 1, 1, 1, 0]
    assert [len(batch.events) for batch in batches] == [1, 0, 0, 0, 1]


def test_what_nobody_knows_is_counted_by_its_name() -> None:
    line = dynamo({"pinned": {"block_hashes": [1]}}, new=1)
    line["more"] = 1
    line["event"]["event"]["other"] = 1
    (batch,) = DynamoEvents().decode(written(line)[0])
    assert batch.events == ()
    assert batch.oddities.unknown_events == {"pinned": 1}
    assert batch.oddities.unknown_fields == {"line.more": 1, "router_event.new": 1, "event.other": 1}


@pytest.mark.parametrize(
    "data",
    ["Cleared", "gone", 5, None, {"removed": {"block_hashes": [2**64]}}, {"stored": {"blocks": [{"block_hash": "1"}]}}],
)
def test_an_event_that_cannot_be_right_is_bad(data) -> None:
    good, bad = written(dynamo("cleared"), dynamo(data))
    assert [batch.oddities.bad_events for batch in DynamoEvents().decode(good + b"\n" + bad)] == [0, 1]


@pytest.mark.parametrize("payload", [b"hello", b"[1, 2", b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe"])
def test_what_is_no_recording_is_refused_in_one_sentence(payload: bytes) -> None:
    with pytest.raises(BadBatch) as refused:
        DynamoEvents().decode(payload)
    assert str(refused.value).endswith(".")


def test_a_line_without_an_end_is_refused_while_it_is_read() -> None:
    with pytest.raises(BadBatch, match="longer"):
        list(DynamoEvents().read(io.BytesIO(b"1" * (MAX_PAYLOAD_BYTES + 100))))
