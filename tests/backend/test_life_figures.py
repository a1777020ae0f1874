"""The figures of the lives of blocks: how sure they are, what spoils them, what the past can tell, and the finding that
the source's inspector opens.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from kvxray_backend import past_lives
from kvxray_backend.alerts.own_rules import FIGURE_NAMES
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.inspector import Inspector
from kvxray_backend.figure import Figure
from kvxray_backend.life_figures import LIFE_UNITS, OF_EARLIER, life_figures
from kvxray_backend.live_state import LiveState
from kvxray_backend.views import reading_of
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Cause, Kind

from tests.backend.served import backend_of, caught_up
from tests.backend.small_engine import SmallEngine
from tests.backend.told import SECOND, Story, descriptor


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(num_blocks=33) as engine:
        yield engine


def followed(story: Story, begin: BlockMap | None = None) -> LiveState:
    """A live state that was told all of a story."""
    live = LiveState("told")
    live.begin(1, begin or BlockMap(descriptor(), source="told", incarnation="life-1"))
    for message in story.messages:
        live.fold(message)
    return live


def figures(live: LiveState) -> dict[str, Figure]:
    assert live.block_map is not None
    return life_figures(reading_of(live, live.block_map))


def come_and_go(story: Story, times: int) -> None:
    """Blocks 1 and 2 with the same hashes, evicted and cached again."""
    for at in range(times):
        name = f"r{at}"
        story.arrive(name)
        if at:
            story.evict(1, 2)
        story.schedule(name)
        story.allocate(name, 1, 2)
        story.cache(name, 1, 2)
        story.free(name, 2, 1)
        story.end(name)
        story.step(2)


def test_what_comes_and_goes_is_told_in_numbers() -> None:
    story = Story()
    come_and_go(story, 4)
    told = figures(followed(story))
    assert {name: figure.value for name, figure in told.items()} == {
        "blocks_evicted": 6, "blocks_reused": 0, "lifetime_p50_s": 2.0, "lifetime_p90_s": 2.0,
        "evicted_idle_p50_s": 2.0, "evicted_idle_p90_s": 2.0, "reuse_gap_p50_s": None, "reuse_gap_p90_s": None,
        "eviction_regret": 1.0, "tokens_recomputed": None, "missed_cold": 32, "missed_evicted": 96,
        "missed_evicted_ago_p50_s": 0.0, "missed_dropped": 0, "missed_beside": 0, "missed_tail": 0,
    }  # fmt: skip
    assert {figure.certainty for figure in told.values()} == {"exact"}
    assert {name: figure.unit for name, figure in told.items()} == dict(LIFE_UNITS)


def test_tokens_recomputed_are_told_once_the_victim_runs_again() -> None:
    story = Story()
    story.arrive("victim")
    story.schedule("victim", 40)
    story.step(1)
    story.begin().op(Kind.RequestPreempted, Cause.preempt, story.of("victim"), 40)
    story.step(1)
    assert figures(followed(story))["tokens_recomputed"].value is None
    story.schedule("victim", 41, 16)
    story.step(1)
    assert figures(followed(story))["tokens_recomputed"].value == 24


def test_who_joins_late_is_less_sure_and_a_gap_spoils() -> None:
    story = Story()
    come_and_go(story, 2)
    begin, story.messages = story.map.copy(), []
    come_and_go_again(story)
    told = figures(followed(story, begin))
    assert (told["lifetime_p50_s"].value, told["lifetime_p50_s"].certainty) == (2.0, "exact")  # the snapshot tells
    unsure = {"eviction_regret", "missed_cold", "missed_evicted", "missed_evicted_ago_p50_s", "missed_dropped"}
    assert {name for name, figure in told.items() if figure.certainty != "exact"} == unsure


def test_after_a_gap_nothing_is_known_of_the_blocks_before() -> None:
    story = Story()
    come_and_go(story, 2)
    live = followed(story)
    live.forget()
    story.messages = []
    come_and_go_again(story)
    for message in story.messages:
        live.fold(message)
    told = figures(live)
    assert (told["blocks_evicted"].value, told["lifetime_p50_s"].value) == (2, None)
    assert told["eviction_regret"].certainty == told["missed_cold"].certainty == "derived"


def come_and_go_again(story: Story) -> None:
    story.arrive("later")
    story.evict(1, 2)
    story.schedule("later")
    story.allocate("later", 1, 2)
    story.cache("later", 1, 2)
    story.step(2)


def test_the_inspector_of_a_source_opens_the_finding_and_ends_it() -> None:
    story = Story()
    come_and_go(story, 4)
    live, stored = followed(story), list[Finding]()
    live.connect("connected", 1)
    inspector = Inspector(live, story.clock, stored.append)
    inspector.folded(story.messages[-1], [])
    inspector.inspect(10 * SECOND)
    (found,) = [finding for finding in live.findings if finding.kind == "thrash"]
    assert found.numbers == {"blocks": 2, "readmissions": 6, "evictions": 6}
    assert found.subjects.blocks == (1, 2)
    assert found.subjects.hashes == ((b"\1" * 32).hex(), (b"\2" * 32).hex())
    story.clock.now += 70 * SECOND
    story.arrive("one more")
    live.fold(story.step())
    inspector.folded(story.messages[-1], [])
    inspector.inspect(20 * SECOND)
    assert [finding.kind for finding in live.findings] == []
    assert stored[-1].sentence.startswith("Blocks were evicted and computed again")


def test_an_engine_that_has_fallen_silent_does_not_thrash() -> None:
    story = Story()
    come_and_go(story, 4)
    live = followed(story)
    live.connect("connected", 1)
    inspector = Inspector(live, story.clock, lambda _: None)
    inspector.folded(story.messages[-1], [])
    inspector.inspect(10 * SECOND)
    assert [finding.kind for finding in live.findings] == ["thrash"]
    inspector.silent(story.clock.now)
    assert [finding.kind for finding in live.findings] == ["stale"]


def test_own_rules_may_ask_for_them() -> None:
    assert LIFE_UNITS.keys() <= set(FIGURE_NAMES)


def test_the_past_tells_what_its_minutes_hold_and_nothing_where_they_hold_too_much(
    client: TestClient, engine: SmallEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.work(60)
    caught_up(client, engine)
    assert backend_of(client).log.flush(10)
    at = f"1.{engine.recorder.next_seq - 1}"
    then = lives_of(client, at)
    assert then["blocks_evicted"]["value"] > 0
    assert {then[name]["certainty"] for name in LIFE_UNITS} == {"exact"}
    monkeypatch.setattr(past_lives, "MAX_EVENTS", 100)
    earlier = lives_of(client, f"1.{engine.recorder.next_seq - 2}")
    assert {(earlier[name]["value"], earlier[name]["certainty"]) for name in LIFE_UNITS} == {(None, "not_observable")}


def test_of_a_past_whose_beginning_is_not_read_no_miss_is_called_cold() -> None:
    story = Story()
    come_and_go(story, 2)
    live = followed(story)
    lives = past_lives.BlockLives(story.map.copy(), is_of_past=True)
    live.lives = lives
    told = figures(live)
    assert {name for name, figure in told.items() if figure.certainty == "not_observable"} == set(OF_EARLIER)


def lives_of(client: TestClient, at: str) -> dict[str, dict[str, object]]:
    answer = client.get("/api/overview", params={"at": at, "source": "engine"})
    assert answer.status_code == 200, answer.text
    told: dict[str, dict[str, object]] = answer.json()["engines"][0]["figures"]
    return told
