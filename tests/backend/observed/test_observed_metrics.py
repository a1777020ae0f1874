"""The metrics of a watched engine are read beside its events: by its own page or out of a Prometheus, whatever dies."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kvxray_backend.analysis import stream_findings
from kvxray_backend.moments import LIVE
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_backend.residency.engine_overview import foreign_engine_view
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch
from kvxray_engine.clock import SystemClock
from kvxray_storage import history

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.metrics.fake_prometheus import FakePrometheus
from tests.backend.metrics.web import serving, text
from tests.backend.observed.watching import kinds, num_cached, stored_in, until, watching

CONFIG = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="11",enable_prefix_caching="True"} 1\n'


def page(running: int = 1, queries: int = 100, hits: int = 10) -> str:
    told = f"vllm:num_requests_running {running}\nvllm:prefix_cache_queries_total {queries}\n"
    return f"{told}vllm:prefix_cache_hits_total {hits}\n{CONFIG}"


def spec(**more: Any) -> ObserveSpec:
    return ObserveSpec(name="e", **{"every_s": 1.0, **more})


def value(engine: ObservedEngine, signal: str) -> float | None:
    with engine.lock:
        return engine.watch.book.value(signal) if engine.watch is not None else None


def test_an_engine_of_metrics_alone_has_no_stream_and_its_numbers(tmp_path: Path) -> None:
    with (
        stored_in(tmp_path) as stored,
        serving(text(page(running=3))) as web,
        watching(*stored, spec(metrics=f"{web.url}/metrics")) as engine,
    ):
        until(lambda: value(engine, "requests_running") == 3)
        assert (engine.connection, engine.ranks) == ("no_stream", {})
        until(lambda: engine.metrics_status.num_pages)


def test_an_engine_whose_metrics_show_no_work_is_silent_and_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_findings, "STALE_AFTER_S", 0.5)
    answer = [page(running=0)]
    with (
        stored_in(tmp_path) as stored,
        EngineRig() as rig,
        serving(lambda _: text(answer[0])(_)) as web,
        watching(*stored, spec(events=rig.events, metrics=f"{web.url}/metrics")) as engine,
    ):
        rig.wait_for_subscriber()
        rig.publish(1)
        until(lambda: engine.metrics_status.num_pages >= 3 and num_cached(engine) == 1)
        assert (engine.connection, "stale_stream" in kinds(engine)) == ("connected", False)
        answer[0] = page(running=1)
        until(lambda: engine.connection == "stale" and "stale_stream" in kinds(engine))


def test_a_router_is_judged_by_its_requests_and_not_by_a_cache(tmp_path: Path) -> None:
    told = "llm_d_epp:request_running 2\nllm_d_epp:ready_endpoints 3\nllm_d_epp:kv_cache_events_active_subscribers 1\n"
    with (
        stored_in(tmp_path) as stored,
        serving(text(told)) as web,
        watching(*stored, spec(make="router", metrics=f"{web.url}/metrics")) as engine,
    ):
        until(lambda: value(engine, "router_running") == 2)
        until(lambda: engine.metrics_status.num_pages)
        source = ForeignSource("e", engine, None)
        verdict = foreign_engine_view(ForeignMoment(source, LIVE, "no_stream", None, None, None, 0, None, ())).verdict
        assert (verdict.rule, verdict.sentence) == (
            "index_deaf",
            "The router's index follows the events of 1 of 3 engines.",
        )


def test_a_page_that_dies_and_comes_back_is_read_again_and_what_fell_is_told(tmp_path: Path) -> None:
    with (
        stored_in(tmp_path) as (database, log),
        serving(text(page(queries=1_000))) as web,
        watching(database, log, spec(metrics=f"{web.url}/metrics")) as engine,
    ):
        until(lambda: engine.metrics_status.num_pages)
        web.answer = text("gone", 503)
        until(lambda: engine.metrics_status.num_failures)
        assert "503" in engine.metrics_status.failure
        assert value(engine, "prefix_queries") == 1_000
        web.answer = text(page(queries=7, hits=1))
        until(lambda: engine.metrics_status.num_failures == 0 and value(engine, "prefix_queries") == 7)
        until(lambda: [row.kind for row in history.findings(database, "e")] == ["counter_reset"])


def test_what_metrics_say_of_the_pool_is_the_capacity_of_the_only_rank(tmp_path: Path) -> None:
    with (
        stored_in(tmp_path) as stored,
        EngineRig() as rig,
        serving(text(page())) as web,
        watching(*stored, spec(events=rig.events, metrics=f"{web.url}/metrics")) as engine,
    ):
        rig.wait_for_subscriber()
        rig.publish(12)
        until(lambda: num_cached(engine) == 12)
        until(lambda: kinds(engine) == ["resident_over_capacity"])
        assert engine.ranks["e"].followed.num_blocks == 10


def test_a_switched_off_cache_is_told_as_the_reason_and_stored_until_it_is_over(tmp_path: Path) -> None:
    off = page().replace('caching="True"', 'caching="False"')
    with stored_in(tmp_path) as (database, log), serving(text(off)) as web:
        with watching(database, log, spec(metrics=f"{web.url}/metrics")) as engine:
            until(lambda: kinds(engine) == ["config"])
        assert log.flush(10)
        assert [(row.kind, row.state) for row in history.findings(database, "e")] == [("config", "ended")]


def test_sglang_says_in_its_server_info_that_its_cache_is_off(tmp_path: Path) -> None:
    def answer(handler: Any) -> None:
        told = '{"disable_radix_cache": true, "page_size": 1, "nested": {"a": 1}}'
        (text(told) if handler.path == "/get_server_info" else text("sglang:num_running_reqs 1\n"))(handler)

    with (
        stored_in(tmp_path) as stored,
        serving(answer) as web,
        watching(*stored, spec(make="sglang", metrics=f"{web.url}/metrics")) as engine,
    ):
        until(lambda: kinds(engine) == ["config"])


def test_a_prometheus_tells_the_past_first_and_then_what_is_now(tmp_path: Path) -> None:
    labels = (("pod", "p-1"),)
    prometheus = FakePrometheus({("vllm:num_requests_running", labels): lambda at: 4})
    told: list[float] = []

    def note(engine: str, at_s: float, watch: MetricsWatch) -> None:
        assert (engine, watch.book.last_s) == ("e", at_s)
        told.append(at_s)

    with ExitStack() as stack:
        database, log = stack.enter_context(stored_in(tmp_path))
        web = stack.enter_context(serving(prometheus.answer))
        around = Surroundings(database, log, SystemClock())
        stack.callback(around.close)
        around.on_reading.append(note)
        watched = spec(prometheus=web.url, match={"pod": "p-1"})
        engine = ObservedEngine(watched, database, log, SystemClock(), around)
        engine.start()
        stack.callback(engine.close)
        until(lambda: engine.metrics_status.num_pages >= 2)
        assert value(engine, "requests_running") == 4
    assert told == sorted(set(told))
    assert told[-1] - told[0] > 80_000
    assert [asked["path"] for asked in prometheus.asked][0] == "/api/v1/query_range"


def test_a_prometheus_that_knows_no_such_engine_says_so(tmp_path: Path) -> None:
    prometheus = FakePrometheus({("vllm:num_requests_running", (("pod", "other"),)): lambda at: 4})
    with (
        stored_in(tmp_path) as stored,
        serving(prometheus.answer) as web,
        watching(*stored, spec(prometheus=web.url, match={"pod": "p-1"})) as engine,
    ):
        until(lambda: "has these labels" in engine.metrics_status.failure)
