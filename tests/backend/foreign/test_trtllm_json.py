"""What TensorRT-LLM's pull API tells, as batches."""

from __future__ import annotations

import json

import pytest
from kvxray_backend.sources.foreign import json_events
from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES, BadBatch
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Created, Moved, Place, Removed, Spec, Stored
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

from tests.backend.foreign.json_samples import (
    TRTLLM_EVENTS,
    trtllm,
    trtllm_block,
    trtllm_stored,
    trtllm_updated,
    written,
)
from tests.backend.foreign.payloads import eight


def told(*events, chains=None):
    return [one for batch in TrtllmEvents(chains).decode(json.dumps(events).encode()) for one in batch.events]


@pytest.mark.parametrize(
    "payload",
    [b"[" + b",".join(TRTLLM_EVENTS) + b"]", b"\n".join(TRTLLM_EVENTS), b"\r\n\r\n".join(TRTLLM_EVENTS) + b"\n"],
)
def test_a_list_and_lines_tell_the_same_as_one_event_after_the_other(payload: bytes) -> None:
    events = TrtllmEvents()
    singly = [batch for event in TRTLLM_EVENTS for batch in events.decode(event)]
    together = TrtllmEvents().decode(payload)
    assert [batch.events for batch in together] == [batch.events for batch in singly]
    assert [batch.event_id for batch in together] == list(range(6))
    assert not any(batch.oddities for batch in together)
    assert {batch.ts for batch in together} == {None}
    assert [batch.rank for batch in together] == [None, None, None, 1, None, None]


def test_an_event_written_over_several_lines_is_one() -> None:
    pretty = json.dumps(json.loads(TRTLLM_EVENTS[3]), indent=2).encode()
    assert [batch.event_id for batch in TrtllmEvents().decode(pretty)] == [3]


def test_a_number_left_out_is_there_to_be_seen() -> None:
    removed = [trtllm(number, {"type": "removed", "block_hashes": [1]}) for number in (4, 5, 9)]
    assert [batch.event_id for batch in TrtllmEvents().decode(json.dumps(removed).encode())] == [4, 5, 9]


def test_the_sizes_of_the_caches_come_first() -> None:
    assert told(trtllm(0, {"type": "created", "num_blocks_per_cache_level": [101, 50]}, 4096)) == [
        Created((("GPU", 101), ("CPU", 50)), 4096)
    ]


def test_a_store_is_a_chain_and_a_partial_block_tells_its_own_size() -> None:
    whole, partial = told(
        trtllm(
            1,
            trtllm_stored(
                trtllm_block(2**64 - 1, range(32)), trtllm_block(5, range(32)), trtllm_block(6, [1, 2]), parent=4
            ),
        )
    )
    assert whole == Stored((eight(-1), eight(5)), eight(4), 32, 64, Place("GPU"), Spec("", 8192))
    assert partial == Stored((eight(6),), eight(5), 2, 2, Place("GPU"), Spec("", 8192))


def test_hex_hashes_and_levels_and_adapters_are_told() -> None:
    first, second, third = told(
        trtllm(
            1,
            trtllm_stored(
                trtllm_block("ab" * 32, range(4)),
                trtllm_block("cd" * 32, range(4), cache_level=1),
                trtllm_block("ef" * 32, range(4), cache_level=1, lora_id=3),
            ),
        )
    )
    assert (first.hashes, first.parent, first.place) == ((b"\xab" * 32,), None, Place("GPU"))
    assert (second.hashes, second.parent, second.place) == ((b"\xcd" * 32,), b"\xab" * 32, Place("CPU"))
    assert (third.parent, third.lora) == (b"\xcd" * 32, "3")


def test_a_removal_does_not_say_from_where() -> None:
    assert told(trtllm(1, {"type": "removed", "block_hashes": [5, "ab" * 32]})) == [
        Removed((eight(5), b"\xab" * 32), Place(), is_any_medium=True)
    ]


def test_a_block_that_changes_its_level_moved_and_one_that_changes_its_priority_did_not() -> None:
    assert told(
        trtllm(1, trtllm_updated(5, new=1)), trtllm(2, trtllm_updated(5)), trtllm(3, trtllm_updated(5, 0, 1))
    ) == [
        Moved((eight(5),), Place("GPU"), Place("CPU")),
        Moved((eight(5),), Place("CPU"), Place("GPU")),
    ]


def test_caches_of_other_windows_are_other_groups() -> None:
    events = TrtllmEvents()
    windows = [8192, 512, 8192, 4096, 512]
    payload = json.dumps([trtllm(n, {"type": "removed", "block_hashes": [1]}, w) for n, w in enumerate(windows)])
    assert [batch.events[0].place.group for batch in events.decode(payload.encode())] == [0, 1, 0, 2, 1]
    later = json.dumps(trtllm(9, {"type": "removed", "block_hashes": [1]}, 4096)).encode()
    assert events.decode(later)[0].events[0].place.group == 2
    told_so = json.dumps(trtllm(9, {"type": "removed", "block_hashes": [1]}, 4096, layer_group_id=7)).encode()
    assert events.decode(told_so)[0].events[0].place.group == 7


def test_tokens_become_digests_however_the_store_was_cut() -> None:
    chains = TokenChains(b"key")
    blocks = [trtllm_block(n, range(n, n + 4)) for n in range(1, 5)]
    whole = told(trtllm(1, trtllm_stored(*blocks)), chains=chains)[0].token_digests
    cut = told(
        trtllm(1, trtllm_stored(*blocks[:1])),
        trtllm(2, trtllm_stored(*blocks[1:], parent=1)),
        chains=TokenChains(b"key"),
    )
    assert len(whole) == 4
    assert whole == tuple(one for event in cut for one in event.token_digests)


def test_extra_ids_of_tokens_and_images_are_other_digests() -> None:
    plain, image, extra = trtllm_block(1, [1, 2]), trtllm_block(1, [1, 2]), trtllm_block(1, [1, 2])
    image["mm_keys"] = [{"type": "mm_key", "hash": "ab", "start_offset": 0}]
    extra["tokens"][0]["token_extra_id"] = 9
    digests = {
        told(trtllm(1, trtllm_stored(block)), chains=TokenChains(b"key"))[0].token_digests
        for block in (plain, image, extra)
    }
    assert len(digests) == 3


def test_what_nobody_knows_is_counted_and_the_rest_is_kept() -> None:
    payload = json.dumps(
        [
            trtllm(1, {"type": "removed", "block_hashes": [1], "why": "x"}, new=1),
            trtllm(2, {"type": "pinned", "block_hash": 1}),
            trtllm(3, {"type": "removed", "block_hashes": ["no hash"]}),
            {"event_id": 4},
            5,
        ]
    )
    batches = TrtllmEvents().decode(payload.encode())
    assert batches[0].oddities.unknown_fields == {"event.new": 1, "removed.why": 1}
    assert batches[1].oddities.unknown_events == {"pinned": 1}
    assert [batch.oddities.bad_events for batch in batches] == [0, 0, 1, 1, 1]
    assert [len(batch.events) for batch in batches] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "payload",
    [b"", b"hello", b"[1, 2", b"[1, 2]", b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"[null]",
     b'{"event_id": 1, "data": {"type": "removed", "block_hashes": [' + b"9" * 5_000 + b"]}}"],
)  # fmt: skip
def test_what_is_none_of_these_events_is_refused_or_tells_nothing(payload: bytes) -> None:
    try:
        batches = TrtllmEvents().decode(payload)
    except BadBatch as refused:
        assert str(refused).endswith(".")
    else:
        assert batches == []
        assert not payload.strip()


@pytest.mark.parametrize(
    "payload",
    [
        b" " * (MAX_PAYLOAD_BYTES + 1),
        b"[" + b"1," * (3 << 20) + b"1]",
        b"[" + b"1," * 1_000 + b"1]",
        b"1\n" * 1_001,
    ],
)
def test_too_much_is_refused(payload: bytes, monkeypatch) -> None:
    monkeypatch.setattr(json_events, "MAX_EVENTS", 1_000)
    with pytest.raises(BadBatch, match="taken"):
        TrtllmEvents().decode(payload)


def test_an_engine_with_more_windows_than_any_is_not_believed() -> None:
    events = written(*(trtllm(n, {"type": "removed", "block_hashes": [1]}, n + 1) for n in range(100)))
    batches = TrtllmEvents().decode(b"\n".join(events))
    assert sum(batch.oddities.bad_events for batch in batches) == 100 - 64
