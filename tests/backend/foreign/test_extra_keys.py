"""Keys that carry no tags: what can be told of them is, and what cannot is not made up."""

from __future__ import annotations

import pytest
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.told import Stored

from tests.backend.foreign.payloads import DATA, frames, packed, stored


def adapter_and_salt(keys, parent=None, **more):
    batch = decode_batch(packed(stored([1] * len(keys), parent=parent, extra_keys=keys, **more)))
    (event,) = batch.events
    assert isinstance(event, Stored)
    return event.lora, event.salt, bool(batch.oddities)


@pytest.mark.parametrize(
    ("keys", "lora_name", "told"),
    [
        ([None, None], None, ("", "")),
        ([["tenant"], None], None, ("", "tenant")),
        ([["adapter"], ["adapter"]], "adapter", ("adapter", "")),
        ([["adapter", "tenant"], ["adapter"]], "adapter", ("adapter", "tenant")),
        ([["adapter", ["image", 3], "tenant"], None], None, ("adapter", "tenant")),
        ([[["image", 3]], [["image", -13]]], None, ("", "")),
        ([[["image", 3], "tenant"], None], None, ("", "tenant")),
        ([["tenant", b"embedding"], None], None, ("", "tenant")),
        (
            [[["lora", "adapter", "/path"], ["mm", "image", 3], ["cache_salt", "tenant"]], None],
            None,
            ("adapter", "tenant"),
        ),
        ([[["prompt_embeds", b"digest"]], None], None, ("", "")),
        ([[{"type": "LoRAKey", "name": "adapter"}], None], None, ("adapter", "")),
    ],
)
def test_adapter_and_salt_are_told_where_they_can_be(keys, lora_name, told) -> None:
    assert adapter_and_salt(keys, lora_name=lora_name) == (*told, False)


def test_only_the_first_block_of_a_prompt_carries_a_salt() -> None:
    assert adapter_and_salt([["text"], ["text"]], parent=7) == ("", "", False)


@pytest.mark.parametrize("keys", [[["a", "b", "c"]], [[1.5]], [[{"type": "New"}]], [[["a"]]], [5], [["x" * 70_000]]])
def test_keys_that_are_not_understood_are_counted_and_tell_nothing_wrong(keys) -> None:
    _, salt, is_odd = adapter_and_salt(keys)
    assert is_odd
    assert salt == ""


def test_keys_of_another_number_of_blocks_are_counted() -> None:
    batch = decode_batch(packed(stored([1, 2], extra_keys=[["tenant"]])))
    assert batch.events[0].salt == ""
    assert batch.oddities.unknown_fields == {"BlockStored.extra_keys": 1}


def test_sglang_tells_the_salt_by_name() -> None:
    (event,) = decode_batch(packed(stored([1], cache_salt="tenant", extra_keys=[["other"]]))).events
    assert event.salt == "tenant"


def test_the_recorded_adapters_and_salts_of_vllm_are_told() -> None:
    payloads = frames(DATA / "captures" / "vllm-0.32.0-lora_salt.frames.jsonl.gz")
    told = {(event.lora, event.salt) for payload in payloads for event in decode_batch(payload).events}
    assert told == {
        ("", ""),
        ("adapter-one", ""),
        ("adapter-two", ""),
        ("", "tenant-a"),
        ("", "tenant-b"),
        ("adapter-one", "tenant-a"),
    }
