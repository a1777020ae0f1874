"""Digests in place of tokens: equal where the tokens are, whoever hashed them, and nothing else can be told of them."""

from __future__ import annotations

import pytest
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.token_chains import TokenChains

from tests.backend.foreign.payloads import DATA, frames, packed, stored

TOKENS = list(range(100, 116))


def digests(*events, key=b"key", chains=None):
    """Of all blocks, one event after the other."""
    chains = TokenChains(key) if chains is None else chains
    return [one for event in decode_batch(packed(*events), chains).events for one in event.token_digests]


def test_two_engines_with_different_seeds_have_the_same_digests() -> None:
    one = digests(stored([1, 2, 3, 4], tokens=TOKENS))
    other = digests(stored([b"a" * 32, b"b" * 32, b"c" * 32, b"d" * 32], tokens=TOKENS))
    assert one == other
    assert len(set(one)) == 4
    assert {len(digest) for digest in one} == {16}


def test_how_a_chain_is_cut_into_events_does_not_matter() -> None:
    whole = digests(stored([1, 2, 3, 4], tokens=TOKENS))
    parts = digests(
        stored([11], tokens=TOKENS[:4]),
        stored([12, 13], parent=11, tokens=TOKENS[4:12]),
        stored([14], parent=13, tokens=TOKENS[12:]),
    )
    assert parts == whole


def test_a_chain_goes_on_in_later_batches() -> None:
    chains = TokenChains(b"key")
    first = digests(stored([1, 2], tokens=TOKENS[:8]), chains=chains)
    second = digests(stored([3, 4], parent=2, tokens=TOKENS[8:]), chains=chains)
    assert first + second == digests(stored([1, 2, 3, 4], tokens=TOKENS))


def test_the_same_tokens_after_other_tokens_are_another_prefix() -> None:
    one = digests(stored([1, 2], tokens=[1, 2, 3, 4, 9, 9, 9, 9]))
    other = digests(stored([1, 2], tokens=[5, 6, 7, 8, 9, 9, 9, 9]))
    assert not set(one) & set(other)


def test_after_a_parent_that_is_not_remembered_its_hash_stands_for_it() -> None:
    after_seven = digests(stored([1], parent=7, tokens=TOKENS[:4]))
    assert after_seven == digests(stored([2], parent=7, tokens=TOKENS[:4]))
    assert after_seven != digests(stored([1], parent=8, tokens=TOKENS[:4]))
    assert after_seven != digests(stored([1], tokens=TOKENS[:4]))


@pytest.mark.parametrize("more", [{"lora_name": "a"}, {"cache_salt": "a"}, {"extra_keys": [[["image", 0]]]}])
def test_other_keys_are_another_prefix(more) -> None:
    plain = digests(stored([1], tokens=TOKENS[:4]))
    assert digests(stored([1], tokens=TOKENS[:4], **more)) != plain
    assert digests(stored([1], tokens=TOKENS[:4], extra_keys=[None], lora_name=None)) == plain


def test_another_key_gives_other_digests() -> None:
    assert digests(stored([1])) != digests(stored([1]), key=b"other")
    assert digests(stored([1]), key=b"k" * 64) != digests(stored([1]), key=b"k" * 65)


def test_the_last_block_may_be_partial() -> None:
    partial = digests(stored([1, 2], tokens=TOKENS[:6]))
    assert partial[0] == digests(stored([1], tokens=TOKENS[:4]))[0]
    assert partial[1] != digests(stored([1, 2], tokens=TOKENS[:8]))[1]


@pytest.mark.parametrize(
    "event",
    [
        stored([1, 2, 3, 4], tokens=[1, 2, 3], block_size=256),
        stored([1], tokens=list(range(20)), block_size=4),
        stored([1], tokens=["a", "b", "c", "d"]),
        stored([1], tokens=[-1, 0, 0, 0]),
        stored([1], tokens=[1 << 40, 0, 0, 0]),
        stored([1], tokens=[[1, 2, 3]] * 4),
        stored([1], tokens=[1, [2, 3], 4, 5]),
        stored([1, 2], tokens=[], block_size=0),
        stored([], tokens=[], block_size=784),
    ],
)
def test_what_are_not_the_tokens_of_these_blocks_has_no_digests(event) -> None:
    batch = decode_batch(packed(event), TokenChains(b"key"))
    assert batch.events[0].token_digests == ()
    assert batch.events == decode_batch(packed(event)).events


def test_pairs_of_tokens_have_digests_of_their_own() -> None:
    pairs = digests(stored([1], tokens=[[1, 2], [3, 4]], block_size=2))
    assert len(pairs) == 1
    assert pairs != digests(stored([1], tokens=[1, 2, 3, 4], block_size=4))


def test_what_is_remembered_is_bounded() -> None:
    chains = TokenChains(b"key", max_remembered=100)
    chain = digests(*(stored([n], parent=n - 1 or None, tokens=[n] * 4) for n in range(1, 1_001)), chains=chains)
    assert len(chain) == 1_000
    assert len(chains._young) + len(chains._old) <= 100
    newest = digests(stored([5_000], parent=1_000, tokens=TOKENS[:4]), chains=chains)
    oldest = digests(stored([5_001], parent=1, tokens=TOKENS[:4]), chains=chains)
    alone = digests(stored([1], parent=1, tokens=TOKENS[:4]))
    assert newest != alone
    assert oldest == alone


def test_recordings_with_int_and_with_byte_hashes_of_one_workload_have_the_same_digests() -> None:
    """The same inputs were given to releases and hash types: other hashes for some of them, the same prompts."""

    def told(name):
        chains = TokenChains(b"key")
        payloads = frames(DATA / "captures" / f"{name}.frames.jsonl.gz")
        events = [event for payload in payloads for event in decode_batch(payload, chains).events]
        return {one for event in events for one in getattr(event, "token_digests", ())}

    as_numbers = told("vllm-0.32.0-int_hashes")
    assert as_numbers == told("vllm-0.32.0-eviction")
    assert as_numbers == told("vllm-0.16.0-eviction")
    assert len(as_numbers) > 50


def test_token_ids_are_nowhere_in_what_is_told() -> None:
    tokens = [987_654_321] * 8
    batch = decode_batch(packed(stored([1, 2], tokens=tokens)), TokenChains(b"key"))
    assert "987654321" not in repr(batch)
