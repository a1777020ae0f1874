"""Blocks that two tenants hold at once are found where salts promise that they do not, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_backend.analysis.cross_tenants import cross_tenant_finding, find_crossing
from kvxray_backend.analysis.stream_health import Place
from kvxray_engine.stream.schema import Cause, Kind, Name

from tests.backend.follower_rig import FollowerRig
from tests.backend.small_engine import SmallEngine
from tests.backend.told import SECOND, Story

PLACE = Place("told", 1, 7, 5 * SECOND)


def sharing(one: dict[str, object], other: dict[str, object]) -> Story:
    """Two requests hold blocks 1 and 2; each has one of its own."""
    story = Story()
    story.arrive("a", **one)
    story.arrive("b", **other)
    story.allocate("a", 1, 2, 3)
    story.cache("a", 1, 2)
    story.refer("b", 1, 2)
    story.allocate("b", 4)
    story.step()
    return story


def test_a_block_of_two_salts_is_found_with_its_hash_and_who_holds_it() -> None:
    story = sharing({"salt": "red"}, {"salt": "blue"})
    found = cross_tenant_finding(PLACE, story.map)
    assert found is not None
    assert (found.kind, found.severity, found.certainty) == ("cross_tenant_prefix", "critical", "exact")
    assert found.subjects.blocks == (1, 2)
    assert found.subjects.requests == ("a", "b")
    assert found.subjects.hashes == ("01" * 32, "02" * 32)
    assert found.numbers == {"blocks": 2, "requests": 2, "salts": 2}
    assert found.sentence == (
        "2 blocks are held at once by requests whose salts differ (blue, red): one tenant reads what another computed."
    )
    over = found.ended(found.time_ns + 3 * SECOND)
    assert over.sentence == "2 blocks were held at once by requests whose salts differ, for 3 s."


def test_it_is_over_once_one_of_them_lets_go() -> None:
    story = sharing({"salt": "red"}, {"salt": "blue"})
    story.begin().values(Kind.BlockDereferenced, Cause.finish, story.of("b"), [1], [1])
    story.step()
    found = cross_tenant_finding(PLACE, story.map)
    assert found is not None
    assert found.subjects.blocks == (2,)
    assert found.sentence.startswith("1 block is held")
    story.begin().values(Kind.BlockDereferenced, Cause.finish, story.of("b"), [2], [1])
    story.step()
    assert cross_tenant_finding(PLACE, story.map) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {}),
        ({"salt": "red"}, {}),
        ({"salt": "red"}, {"salt": "red"}),
        ({"salt": "red", "session": "1"}, {"salt": "red", "session": "2"}),
        ({"session": "1"}, {"session": "2"}),
        ({"tenant": "t"}, {"tenant": "u"}),
        ({"lora": "x"}, {"lora": "y"}),
        ({"salt": "red", "lora": "x"}, {"salt": "red", "lora": "y"}),
        ({"salt": "red", "tenant": "t"}, {"salt": "blue", "tenant": "t"}),
    ],
    ids=str,
)
def test_what_no_salts_of_two_tenants_part_is_shared_on_purpose(
    one: dict[str, object], other: dict[str, object]
) -> None:
    story = sharing(one, other)
    story.arrive("elsewhere", salt="green")
    story.step()
    assert cross_tenant_finding(PLACE, story.map) is None


def test_two_tenants_of_one_salt_beside_a_second_salt_of_the_first_are_two_that_differ() -> None:
    story = sharing({"salt": "red", "tenant": "t"}, {"salt": "blue", "tenant": "t"})
    story.arrive("c", salt="red", tenant="u")
    story.refer("c", 1, after=3)
    story.step()
    crossing = find_crossing(story.map)
    assert crossing is not None
    assert crossing.blocks.tolist() == [1]


def test_a_sequence_has_the_salt_of_its_request() -> None:
    story = sharing({"salt": "red"}, {"salt": "red"})
    of_a = story.begin().new_holder(Name("a/1", kind="sequence", parent=story.of("a")))
    story.arrive("c", salt="blue")
    story.allocate("c", 5, 6)
    story.begin().values(Kind.BlockReferenced, Cause.hit, of_a, [5], [2])
    story.step()
    crossing = find_crossing(story.map)
    assert crossing is not None
    assert crossing.blocks.tolist() == [5]
    assert crossing.salts == ("blue", "red")


def test_after_a_gap_nothing_is_said() -> None:
    story = sharing({"salt": "red"}, {"salt": "blue"})
    story.map.forget()
    assert cross_tenant_finding(PLACE, story.map) is None


def work_of_tenants(engine: SmallEngine, rig: FollowerRig) -> None:
    """Many requests of three tenants with salts, whose prompts all begin alike."""
    rig.pump_until(lambda: rig.live.connection == "connected")
    for turn in range(60):
        engine.add(prompt=60 + turn % 5 * 16, output=8, salt=("red", "blue", "green")[turn % 3])
        engine.step(2)
        if turn % 5 == 0:
            rig.let_time_pass(1)
            rig.pump_until_caught_up(hurry_s=0.05)
    engine.finish()
    rig.pump_until_caught_up(hurry_s=0.05)


def test_an_engine_whose_salts_part_tenants_is_told_nothing_of(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        work_of_tenants(engine, rig)
        assert rig.changes == []


def test_an_engine_that_hashes_no_salts_is_caught_and_the_salts_are_told_as_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvxray_engine.prefix_cache.extra_keys", lambda *_, **__: None)
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        work_of_tenants(engine, rig)
        rig.let_time_pass(1)
        rig.pump_until(lambda: all(one.state == "ended" for one in rig.changes[-1:]))
        assert {one.kind for one in rig.changes} == {"cross_tenant_prefix"}
        assert {one.severity for one in rig.changes} == {"critical"}
        assert not any(salt in one.sentence for one in rig.changes for salt in ("red", "blue", "green"))
        assert rig.live.findings == ()
