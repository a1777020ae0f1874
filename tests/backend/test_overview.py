"""`/api/overview` on a real engine and on stories told by hand: figures that can be counted, verdicts, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from kvxray_backend import overview_figures
from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.figure import Figure
from kvxray_backend.figures import Reading
from kvxray_backend.live_state import LiveState
from kvxray_backend.overview import engine_view, fleet_view
from kvxray_backend.overview_evidence import LABELS
from kvxray_backend.overview_figures import NOT_TOLD, not_told
from kvxray_backend.overview_types import EngineView, OverviewView
from kvxray_backend.overview_windows import Before, before
from kvxray_backend.windows import EventTotals, EventWindows
from kvxray_engine.stream.schema import Kind

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.told import SECOND, Story


@pytest.fixture
def client(engine: SmallEngine, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, source_of(engine), {**source_of(engine, "deaf"), "events": "tcp://127.0.0.1:1"}) as client:
        yield client


def overview(client: TestClient, at: str = "live") -> dict[str, Any]:
    answer = client.get("/api/overview", params={"at": at})
    assert answer.status_code == 200
    told: dict[str, Any] = answer.json()
    return told


def engine_of(told: dict[str, Any], source: str = "engine") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in told["engines"] if one["source"] == source)
    return found


def test_a_working_engine_is_healthy_and_one_never_heard_heads_the_list(
    client: TestClient, engine: SmallEngine
) -> None:
    engine.work(30)
    caught_up(client, engine)
    told = until(lambda: (told := overview(client)) and engine_of(told)["verdict"]["status"] == "healthy" and told)
    assert [one["source"] for one in told["engines"]] == ["deaf", "engine"]
    deaf = engine_of(told, "deaf")
    assert deaf["verdict"]["sentence"] == "Cannot tell, because nothing has been heard from the engine yet."
    assert (deaf["figures"], deaf["counts"], deaf["usable_blocks"]) == ({}, {}, None)
    assert deaf["looked_at"] is None
    assert engine_of(until(lambda: engine_of(overview(client))["looked_at"] and overview(client)))["looked_at"]
    assert engine_of(overview(client, "1.3"))["looked_at"] is None  # of the past it is not known
    assert told["fleet"]["worst"] == "deaf"
    assert told["fleet"]["fullest"] == "engine"
    assert told["fleet"]["figures"]["running"]["value"] is None  # a part of the fleet is not all of it


def test_its_figures_are_those_of_the_state_and_of_what_was_generated(client: TestClient, engine: SmallEngine) -> None:
    engine.work(30)
    caught_up(client, engine)
    key = backend_of(client).epoch_key
    until(lambda: key("engine", 1) is not None and backend_of(client).log.flush(1.0))
    seq = f"1.{engine.recorder.next_seq - 1}"
    found = engine_of(overview(client, seq))
    state = client.get("/api/state", params={"source": "engine", "at": seq}).json()
    assert found["counts"] == state["counts"]
    assert {name: found["figures"][name] for name in state["figures"]} == state["figures"]
    assert found["figures"].keys() == not_told().keys()
    for name in NOT_TOLD:
        assert (found["figures"][name]["value"], found["figures"][name]["certainty"]) == (None, "not_observable")
    totals = [found["figures"][f"prompt_tokens_{part}"]["value"] for part in ("hit", "computed", "queried")]
    assert None in totals or totals[0] + totals[1] == totals[2]


def test_of_thousands_of_open_findings_a_hundred_are_told_and_all_are_counted() -> None:
    live = LiveState("engine")
    live.connect("connected", 1)
    leaks = [leak_finding(at) for at in range(5000)]
    gap = leak_finding(0).model_copy(update={"id": "gap", "kind": "gap"})
    live.findings = (gap, *leaks)
    told = OverviewView(engines=[engine_view(live, Before(), [])], fleet=fleet_view([]))
    (engine,) = told.engines
    assert engine.num_findings == 5001
    assert [finding.id for finding in engine.findings] == [*(f"leak:{at}" for at in range(4999, 4900, -1)), "gap"]
    assert len(told.model_dump_json()) < 100_000


def leak_finding(at: int) -> Finding:
    return Finding(
        id=f"leak:{at}", kind="leak", severity="critical", source="engine", epoch=1, seq0=at, seq1=at, time_ns=at,
        subjects=Subjects(blocks=(at,), requests=(f"leaky-{at}",)), sentence="Leak: a request still holds blocks.",
    )  # fmt: skip


def test_a_moment_that_is_not_stored_is_an_abstention_not_an_error(client: TestClient, engine: SmallEngine) -> None:
    engine.work(5)
    caught_up(client, engine)
    found = engine_of(overview(client, "7.1"))
    assert found["verdict"]["sentence"] == "Cannot tell, because the source engine has no epoch 7."
    assert found["figures"] == {}


def test_other_sources_are_told_as_they_were_when_the_event_happened(engine: SmallEngine, tmp_path: Path) -> None:
    with SmallEngine() as other, serving(tmp_path, source_of(engine, "first"), source_of(other, "second")) as client:
        other.work(3)
        engine.work(40)
        caught_up(client, engine, "first")
        caught_up(client, other, "second")
        at = f"1.{engine.recorder.next_seq - 1}"
        told = client.get("/api/overview", params={"at": at, "source": "first"}).json()
        first, second = engine_of(told, "first"), engine_of(told, "second")
        assert (first["at"], second["at"]) == (at, f"1.{other.recorder.next_seq - 1}")
        # By the same number of its own events it has not got so far.
        assert engine_of(overview(client, at), "second")["figures"] == {}


def test_where_the_event_is_not_known_nobody_is_told_by_its_number(engine: SmallEngine, tmp_path: Path) -> None:
    with SmallEngine() as other, serving(tmp_path, source_of(engine, "first"), source_of(other, "second")) as client:
        engine.work(2)
        other.work(60)
        caught_up(client, engine, "first")
        caught_up(client, other, "second")
        at = f"1.{other.recorder.next_seq - 1}"
        assert engine_of(overview(client, at), "second")["at"] == at
        told = client.get("/api/overview", params={"at": at, "source": "first"}).json()
        for name in ("first", "second"):
            found = engine_of(told, name)
            assert (found["figures"], found["verdict"]["status"]) == ({}, "cannot_tell"), name
            assert f"event {at} is not stored" in found["verdict"]["sentence"]


def test_a_source_that_there_is_not_is_no_source_of_the_event(client: TestClient) -> None:
    for at in ("live", "1.5"):
        answer = client.get("/api/overview", params={"at": at, "source": "nobody"})
        assert (answer.status_code, answer.json()["error"][:30]) == (404, "There is no source 'nobody'; /"), at


def test_a_moment_that_is_no_moment_is_refused(client: TestClient) -> None:
    answer = client.get("/api/overview", params={"at": "yesterday"})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def stored_kinds(client: TestClient) -> Counter[str]:
    """How often each kind of event is stored of the only epoch, told one by one."""
    kinds: Counter[str] = Counter()
    place: str | None = "1.0"
    while place:
        told = client.get("/api/events", params={"source": "engine", "from": place, "limit": 1000}).json()
        kinds.update(event["kind"] for event in told["events"])
        place = told["next"] if told["events"] else None
    return kinds


def test_the_windows_before_count_what_was_stored(client: TestClient, engine: SmallEngine) -> None:
    engine.work(40)
    caught_up(client, engine)
    backend = backend_of(client)
    key = until(lambda: backend.epoch_key("engine", 1))
    now_ns = backend.sources["engine"].live.engine_time.t_ns

    def is_all_counted() -> bool:
        found, kinds = before(backend.database, key, now_ns), stored_kinds(client)
        ended = sum(kinds[f"Request{how}"] for how in ("Finished", "Aborted", "Failed"))
        is_all = kinds.total() > 0 and ended > 0 and found.used_max_5m is not None
        return is_all and (found.finished_10m, found.preemptions_10m) == (ended, kinds["RequestPreempted"])

    until(is_all_counted)
    found = before(backend.database, key, now_ns)
    assert found.hit_rate_day is None  # not watched for an hour
    assert found.used_max_5m is not None
    assert 0 < found.used_max_5m <= 1
    assert before(backend.database, key, SECOND) == Before()


def figures(story: Story, leaks: tuple[Leak, ...] = (), past: Before | None = None) -> dict[str, Any]:
    return {name: figure.value for name, figure in all_figures(story, leaks, past).items()}


def all_figures(story: Story, leaks: tuple[Leak, ...] = (), past: Before | None = None) -> dict[str, Figure]:
    windows = EventWindows()
    windows.note(story.clock.now - 20 * SECOND, EventTotals(0, 0, 0, 0, 0, 0))
    windows.note(story.map.t_ns, EventTotals.of(story.map))
    reading = Reading(story.map, windows, 1, 0, story.clock.now, 0, 0, ())
    return overview_figures.overview_figures(reading, leaks, past or Before())


def test_time_to_first_token_is_split_into_waiting_and_computing() -> None:
    story = Story()
    for name, wait, compute in (("a", 1, 2), ("b", 3, 2), ("c", 2, 5)):
        story.arrive(name)
        story.step(wait)
        story.schedule(name, queried=40, hit=10)
        story.step(compute)
        story.tokens(name, 1)
        story.step()
    told = figures(story)
    assert (told["queue_p50_s"], told["prefill_p50_s"]) == (2.0, 2.0)
    assert (told["ttft_p50_s"], told["ttft_p99_s"]) == (5.0, 7.0)
    assert [told[f"prompt_tokens_{part}"] for part in ("queried", "hit", "computed")] == [120, 30, 90]
    assert told["oldest_wait_s"] is None
    assert told["itl_p50_s"] is None


def test_who_waits_is_told_apart_and_for_how_long() -> None:
    story = Story()
    for name in ("a", "b", "c"):
        story.arrive(name)
        story.step(4)
    story.schedule("a")
    story.begin().op(Kind.RequestPreempted, 0, story.of("a"), 1, 0xFFFFFFFF)
    story.step(1)
    told = figures(story)
    assert (told["waiting_new"], told["waiting_preempted"], told["oldest_wait_s"]) == (2, 1, 9.0)
    assert told["silent_s"] == 1.0


@pytest.mark.parametrize(("looked_at", "certainty"), [(16, "exact"), (4, "derived")])
def test_age_and_idle_are_medians_of_the_cached_blocks(
    monkeypatch: pytest.MonkeyPatch, looked_at: int, certainty: str
) -> None:
    monkeypatch.setattr(overview_figures, "MAX_LOOKED_AT", looked_at)
    story = Story()
    story.arrive("a")
    for block in range(1, 9):
        story.allocate("a", block)
        story.cache("a", block)
        story.step(3)
    story.free("a", *range(1, 7))
    story.step(2)
    told = all_figures(story)
    # Allocated at 0, 3, … 15 of 26 seconds; of every third block (0, 3 and 6) those at 6 and 15.
    expected = 26 - 7.5 if certainty == "exact" else 26 - 10.5
    assert (told["cached_age_p50_s"].value, told["cached_age_p50_s"].certainty) == (expected, certainty)
    assert told["cached_idle_p50_s"].value == 2.0
    story.evict(*range(1, 7))
    story.step()
    assert all_figures(story)["cached_age_p50_s"].value is None


def test_leaks_of_requests_and_leases_are_told_apart() -> None:
    blocks = np.array([1, 2, 3], np.uint32)
    leaks = tuple(
        Leak(holder, f"r{holder}", why, 0, blocks[:n], blocks[:only])
        for holder, why, n, only in ((1, "aborted", 2, 1), (2, "finished", 3, 0), (3, "expired", 1, 1))
    )
    told = figures(Story(), leaks)
    assert (told["leaked_by_requests"], told["lost_to_requests"], told["expired_leases"]) == (3, 1, 1)


def test_preemptions_a_finished_request_have_no_value_without_any() -> None:
    assert figures(Story(), past=Before(preemptions_10m=4, finished_10m=0))["preemptions_per_finished"] is None
    assert figures(Story(), past=Before(preemptions_10m=4, finished_10m=16))["preemptions_per_finished"] == 0.25


def told_engine(name: str, used: int, waiting: int = 0, role: str = "both") -> EngineView:
    """An engine of 8 usable blocks, of which so many are held."""
    story = Story()
    story.arrive("r")
    story.schedule("r")
    story.allocate("r", *range(1, used + 1))
    for number in range(waiting):
        story.arrive(f"w{number}")
    story.step()
    live = LiveState(name)
    live.connect("connected", 1)
    live.begin(1, story.map)
    view = engine_view(live, Before(), [])
    return view.model_copy(update={"labels": {"role": role}})


def test_uneven_load_is_said_only_where_somebody_waits_and_roles_are_alike() -> None:
    uneven = [told_engine("a", 8, waiting=1), told_engine("b", 1)]
    fleet = fleet_view(uneven)
    assert fleet.sentence == ("Requests wait though the load is uneven: a has 100.0% of its cache in use, b 12.5%.")
    told = {name: figure.value for name, figure in fleet.figures.items()}
    assert told == {"used_mean": 0.5625, "used_max": 1.0, "used_spread": 0.875, "running": 2, "waiting": 1}
    assert not fleet_view([told_engine("a", 8), told_engine("b", 1)]).sentence
    assert not fleet_view([told_engine("a", 5, waiting=1), told_engine("b", 1)]).sentence
    other = fleet_view([told_engine("a", 8, waiting=1, role="prefill"), told_engine("b", 1, role="decode")])
    assert (other.sentence, other.figures["used_spread"].value) == ("", None)


def test_evidence_is_of_figures_that_there_are() -> None:
    assert set(LABELS) <= set(figures(Story()))


def test_nobody_to_follow_is_an_empty_overview(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        told = OverviewView.model_validate(overview(client))
    assert (told.engines, told.fleet.worst, told.fleet.figures["used_max"].value) == ([], None, None)
