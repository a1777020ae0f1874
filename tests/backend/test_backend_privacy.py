"""What is kept of names: nothing secret, and nothing too long for a page."""

from __future__ import annotations

from kvxray_backend.sources.privacy import MAX_ID, NameFilter
from kvxray_engine.stream.schema import Name

from tests.backend.told import Story


def test_secrets_become_digests_that_compare_and_say_nothing() -> None:
    names = NameFilter(b"key")
    one = names.name(Name("r1", tenant="acme", session="s", salt="pepper", lora="adapter"))
    two = names.name(Name("r2", tenant="acme", session="t"))
    assert one.tenant == two.tenant
    assert one.session != two.session
    assert (one.id, one.lora, two.salt) == ("r1", "adapter", "")
    assert len(one.tenant) == 32
    for secret in ("acme", "pepper"):
        assert secret not in repr(one)


def test_another_key_gives_other_digests() -> None:
    assert NameFilter(b"a").digest("acme") != NameFilter(b"b").digest("acme")
    long = NameFilter(b"a" * 65)
    assert long.digest("acme") != NameFilter(b"a" * 64).digest("acme")


def test_text_that_is_no_unicode_is_digested_too() -> None:
    assert len(NameFilter(b"key").digest("\ud800")) == 32


def test_a_long_id_is_cut() -> None:
    cut = NameFilter(b"key").name(Name("x" * (MAX_ID + 1)))
    assert len(cut.id) == MAX_ID
    assert cut.id.endswith("…")
    assert NameFilter(b"key").name(Name("x" * MAX_ID)).id == "x" * MAX_ID


def test_messages_and_snapshots_are_rewritten_alike() -> None:
    story = Story()
    story.arrive("a", tenant="acme")
    message = story.step()
    names = NameFilter(b"key")
    (told,) = names.message(message).header.names
    names.snapshot(story.map)
    assert story.map.requests.names[0] == told
    assert told.tenant == names.digest("acme")
    bare = story.step()
    assert names.message(bare) is bare
