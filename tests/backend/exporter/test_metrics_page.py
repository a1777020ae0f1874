"""`/metrics` of a running backend: what it tells, to whom, and how it is written."""

from __future__ import annotations

import gzip
import subprocess
import time
from contextlib import contextmanager

import msgspec
import pytest
from kvxray_backend.exporter import exporter, signal_samples
from kvxray_backend.exporter import samples as samples_module
from kvxray_backend.exporter.asked_for import takes_gzip, wants_open_metrics
from kvxray_backend.exporter.event_samples import evictions_by_cause
from kvxray_backend.exporter.exporter import Exporter
from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS
from kvxray_backend.exporter.metrics import METRICS
from kvxray_backend.exporter.samples import MAX_LABEL_CHARS, Samples
from kvxray_backend.exporter.signal_samples import SignalSamples
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.overview import Overview
from kvxray_backend.overview_figures import NOT_TOLD
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_engine.server.prometheus_text import LabelText
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Cause, Kind

from benchmarks.measuring.model_engine import ModelEngine
from tests.backend.exporter.listening import listening
from tests.backend.exporter.pages import samples
from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.metrics.web import serving as serving_pages
from tests.backend.metrics.web import text
from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.debian_program import debian_program

PAGE = (
    "vllm:kv_cache_usage_perc 0.25\nvllm:num_requests_running 2\nvllm:prefix_cache_queries_total 40\n"
    'vllm:request_success_total{finished_reason="stop"} 3\nvllm:request_success_total{finished_reason="abort"} 1\n'
    'vllm:time_to_first_token_seconds_bucket{le="0.1"} 2\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 4\n'
    "vllm:time_to_first_token_seconds_sum 1.5\nvllm:time_to_first_token_seconds_count 4\n"
)
OPEN = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5"


@contextmanager
def told_by(page, folder, **spec):
    with serving_pages(text(page)) as web:
        engine = {"name": "v", "make": "vllm", "metrics": f"{web.url}/metrics", "every_s": 1.0, **spec}
        with serving(folder, engines=[engine]) as http:
            book = until(lambda: backend_of(http).observed.all[0].watch).book
            until(lambda: book.last_s)
            yield http


def scraped(http, **headers):
    answer = http.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def of(found, name, **labels):
    """The one value under these labels, whatever others there are."""
    values = [value for told, value in found.get(name, {}).items() if labels.items() <= dict(told).items()]
    assert len(values) <= 1, f"several {name} with {labels}"
    return values[0] if values else None


def test_an_engine_of_blocks_is_told_as_the_overview_shows_it(tmp_path):
    with SmallEngine(leak=True) as engine, serving(tmp_path, source_of(engine)) as http:
        engine.work(400)
        engine.finish()
        caught_up(http, engine)

        def agreeing():
            """Once leaks are found: at rest nothing else moves."""
            found, told = samples(scraped(http)), http.get("/api/overview").json()["engines"][0]
            leaks = sum(one["kind"] == "leak" for one in told["findings"])
            is_same = of(found, "kvxray_leaked_blocks") == told["figures"]["leaked"]["value"]
            return (found, told) if is_same and leaks and of(found, "kvxray_findings", kind="leak") == leaks else None

        found, told = until(agreeing)
        live = backend_of(http).sources["engine"].live
    labels = {"engine": "engine", "source": "engine", "make": "kvxray", "model": "null", "role": "both", "node": "here"}
    assert of(found, "kvxray_source_up", **labels) == 1
    for state, figure in told["counts"].items():
        assert of(found, "kvxray_blocks", state=state, **labels) == figure["value"]
    for name in ("used", "leaked", "leaked_only", "running", "internal_fragmentation"):
        assert of(found, FIGURE_METRICS[name].name, **labels) == told["figures"][name]["value"], name
    assert not [name for name in NOT_TOLD if FIGURE_METRICS[name].name in found], "unknown is no sample"
    sure = told["figures"]["used"]["certainty"]
    assert of(found, "kvxray_figure_info", metric="kvxray_used_ratio", certainty=sure) == 1
    assert live.block_map is not None
    assert of(found, "kvxray_prefix_queried_tokens_total") == live.block_map.queried_tokens > 0
    evicted = {dict(labels)["cause"]: value for labels, value in found["kvxray_evictions_total"].items()}
    assert evicted == {
        "allocation": of(found, "kvxray_events_total", kind="BlockEvicted"),
        "explicit": 0,
        "capacity": 0,
    }
    assert evicted["allocation"] == told["figures"]["blocks_evicted"]["value"] > 0
    assert of(found, "kvxray_storage_up") == 1
    assert of(found, "process_resident_memory_bytes") > 1e6


def test_evictions_by_cause_are_all_there_were_and_what_is_not_known_is_said_to_be_so():
    engine = ModelEngine(160, rows=96, seed=3, seldom=1.0)
    fold = BlockMap(engine.descriptor())
    for _ in range(60):
        fold.apply(engine.step())
    told = evictions_by_cause(fold)
    assert list(told) == ["allocation", "explicit", "capacity"]
    assert min(told.values()) > 0
    assert sum(told.values()) == fold.kind_totals[Kind.BlockEvicted]
    fold.kind_totals[Kind.BlockEvicted] += 7
    fold.eviction_totals[Cause.release] += 3
    assert evictions_by_cause(fold) == told | {"other": 3, "unknown": 4}


def test_an_engine_known_by_its_metrics_tells_its_signals_once(tmp_path):
    with told_by(PAGE, tmp_path, labels={"namespace": "prod", "pod": 'p"1\\'}) as http:
        found = samples(scraped(http))
    labels = {"engine": "v", "make": "vllm", "namespace": "prod", "pod": 'p"1\\', "role": "both"}
    assert of(found, "kvxray_engine_kv_usage_ratio", **labels) == 0.25
    assert of(found, "kvxray_used_ratio", **labels) == 0.25
    assert of(found, "kvxray_engine_prefix_queries_tokens_total", **labels) == 40
    assert of(found, "kvxray_engine_requests_finished_total", part="stop", **labels) == 3
    assert len(found["kvxray_engine_requests_finished_total"]) == 2, "parts, and not their sum beside them"
    assert of(found, "kvxray_engine_ttft_seconds_bucket", le="+Inf", **labels) == 4
    assert of(found, "kvxray_engine_ttft_seconds_sum", **labels) == 1.5
    assert of(found, "kvxray_engine_metrics_up", **labels) == 1
    assert "kvxray_engine_preemptions_total" not in found


def test_an_engine_that_is_not_heard_has_no_figures_of_its_events(tmp_path):
    with SmallEngine() as engine:
        source = source_of(engine)
    with serving(tmp_path, source) as http:
        found = samples(scraped(http))
    assert of(found, "kvxray_source_up", source="engine") == 0
    assert of(found, "kvxray_source_state", source="engine", state="waiting") == 1
    assert "kvxray_used_ratio" not in found
    assert "kvxray_blocks" not in found


def test_parts_that_read_alike_make_no_two_samples_of_the_same_labels(tmp_path):
    long = "x" * 500
    parts = "".join(f'vllm:request_success_total{{engine="0",finished_reason="{long}{n}"}} {n + 1}\n' for n in range(9))
    with told_by(f"{PAGE}{parts}", tmp_path) as http:
        lines = [line.rpartition(" ")[0] for line in scraped(http).splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    assert sum(f'part="{"x" * MAX_LABEL_CHARS}"' in line for line in lines) == 1


@pytest.mark.parametrize(("room", "told", "left_out"), [(3, [], 4), (4, [4], 0)])
def test_a_histogram_is_told_whole_or_not_at_all(room, told, left_out, monkeypatch, tmp_path):
    """room: beside the other samples of the page."""
    with told_by(PAGE, tmp_path) as http:
        book = backend_of(http).observed.all[0].watch.book
        made = Samples()
        SignalSamples().add(made, book, LabelText())
        others = sum(len(family.samples) for family in made.families() if family.type != "histogram")
        monkeypatch.setattr(samples_module, "MAX_OF_ENGINE", others + room)
        cut = Samples()
        SignalSamples().add(cut, book, LabelText())
    assert [len(family.samples) for family in cut.families() if family.type == "histogram"] == told
    assert cut.num_left_out == left_out


def test_promtool_has_nothing_to_say_about_the_page(tmp_path):
    with SmallEngine(leak=True) as engine, serving_pages(text(PAGE)) as web:
        watched = {"name": "v", "make": "vllm", "metrics": f"{web.url}/metrics"}
        with serving(tmp_path, source_of(engine), engines=[watched]) as http:
            engine.work(200)
            caught_up(http, engine)
            until(lambda: backend_of(http).observed.all[0].watch.book.last_s)
            page = scraped(http)
    checked = subprocess.run(
        [debian_program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert len(samples(page)) > 60


def test_promtool_has_nothing_to_say_about_any_metric_of_the_table():
    lines = []
    for metric in METRICS.values():
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.type}"]
        ends = ('_bucket{le="+Inf"} 1', "_sum 1", "_count 1") if metric.type == "histogram" else (" 1",)
        lines += [f"{metric.name}{end}" for end in ends]
    checked = subprocess.run(
        [debian_program("promtool"), "check", "metrics"],
        input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_it_is_written_as_whoever_scrapes_asks_for_it(tmp_path):
    with told_by(PAGE, tmp_path) as http:
        plain = http.get("/metrics", headers={"accept-encoding": "identity"})
        opened = http.get("/metrics", headers={"accept": OPEN, "accept-encoding": "gzip"})
        made = [Exporter(Overview(backend_of(http), ResidencyDesk(backend_of(http))))]
        packed = made[0].page(gzipped=True)
        again = made[0].page(gzipped=True)
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "content-encoding" not in plain.headers
    assert "# TYPE kvxray_engine_prefix_queries_tokens_total counter" in plain.text
    assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert opened.headers["content-encoding"] == "gzip"
    assert "# TYPE kvxray_engine_prefix_queries_tokens counter" in opened.text
    assert opened.text.endswith("\n# EOF\n")
    assert again is packed, "within a second it is the same page for all who ask"
    assert b"kvxray_build_info" in gzip.decompress(packed)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        (OPEN, True),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0;q=0.9,application/openmetrics-text;version=1.0.0;q=0.3", True),
    ],
)
def test_open_metrics_is_for_those_who_prefer_it(accept, wanted):
    assert wants_open_metrics(accept) is wanted


@pytest.mark.parametrize(
    ("encodings", "taken"), [("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("*", True)]
)
def test_it_is_compressed_for_those_who_take_it(encodings, taken):
    assert takes_gzip(encodings) is taken


@pytest.mark.parametrize("path", ["/metrics", "/", "/api/health"])
def test_a_monitor_may_ask_for_the_head_alone(path, tmp_path):
    with listening(tmp_path) as kvxray:
        whole, head = kvxray.http.get(path), kvxray.http.head(path)
        refused = kvxray.http.post(path)
    assert (head.status_code, head.content) == (200, b"")
    assert whole.content
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert int(head.headers["content-length"]) > 0
    assert refused.status_code == 405


def test_beyond_loopback_it_needs_the_token_which_prometheus_can_send(tmp_path):
    with serving(tmp_path, host="0.0.0.0", token="s3cret", base_path="/kv") as http:
        assert http.get("/kv/metrics").status_code == 401
        assert http.get("/kv/metrics", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert http.get("/kv/metrics", headers={"authorization": "Bearer s3cret"}).status_code == 200


def test_a_foreign_name_cannot_be_bound_to_it(tmp_path):
    with serving(tmp_path) as http:
        assert http.get("/metrics", headers={"host": "evil.example"}).status_code == 403


def test_what_there_is_too_much_of_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(signal_samples, "MAX_PARTS", 1)
    monkeypatch.setattr(exporter, "MAX_ENGINES", 1)
    with SmallEngine() as engine, told_by(PAGE, tmp_path / "a") as http, serving_pages(text(PAGE)) as web:
        found = samples(scraped(http))
        assert [dict(labels)["part"] for labels in found["kvxray_engine_requests_finished_total"]] == ["abort"]
        other = {"name": "w", "make": "vllm", "metrics": f"{web.url}/metrics"}
        with serving(tmp_path / "b", source_of(engine), engines=[other]) as both:
            found = samples(scraped(both))
    assert of(found, "kvxray_engines_left_out") == 1
    assert {dict(labels)["engine"] for labels in found["kvxray_verdict"]} == {"engine"}


def test_alerts_that_fire_and_how_they_are_told_are_told(tmp_path):
    with SmallEngine(leak=True) as engine, serving_pages(text("ok")) as web:
        hooks = [{"name": "pager", "url": web.url}, {"name": "gone", "url": "http://127.0.0.1:9/"}]
        with serving(tmp_path, source_of(engine), webhooks=hooks) as http:
            caught_up(http, engine)
            engine.add("culprit", prompt=100, output=50)
            engine.step(3)
            engine.abort("culprit")
            until(lambda: engine.work(2) or backend_of(http).alerts.look() or backend_of(http).alerts.active())

            def told():
                found = samples(scraped(http))
                sent = of(found, "kvxray_notifications_total", target="pager", result="delivered")
                return found if sent and of(found, "kvxray_notification_target_up", target="gone") == 0 else None

            found = until(told)
    fires = {"rule": "LeakNamed", "engine": "engine", "state": "firing", "node": "here", "model": "null"}
    assert of(found, "kvxray_alerts", **fires) == 1
    assert of(found, "kvxray_notification_target_up", target="pager") == 1
    assert of(found, "kvxray_notifications_waiting", target="gone") >= 1
    assert of(found, "kvxray_rule_looks_total") >= 1
    assert of(found, "kvxray_rule_look_seconds_total") > 0


def test_what_ranks_tell_is_of_each_and_what_their_engine_tells_is_told_once(tmp_path):
    with EngineRig() as rig, serving_pages(text(PAGE)) as web, serving(tmp_path) as http:
        spec = ObserveSpec(name="e", make="vllm", events=rig.events, metrics=f"{web.url}/metrics", num_blocks=50)
        backend_of(http).observed.attach(spec, "settings")
        rig.wait_for_subscriber()
        rig.publish(payloads=[payload(n, rank=n % 2) for n in range(1, 7)])

        def of_both():
            found = samples(scraped(http))
            both = len(found.get("kvxray_cached_blocks", {})) == 2 and "kvxray_used_ratio" in found
            return found if both and sum(found["kvxray_cached_blocks"].values()) == 6 else None

        found = until(of_both)
    assert of(found, "kvxray_cached_blocks", engine="e", source="e/1") == 3
    assert of(found, "kvxray_events_total", source="e", kind="ResidencyStored") == 3
    assert of(found, "kvxray_used_ratio", engine="e") == 0.25
    assert of(found, "kvxray_engine_kv_usage_ratio", engine="e") == 0.25


def payload(number, rank):
    """One block, stored by a rank."""
    stored = {
        "type": "BlockStored", "block_hashes": [number], "parent_block_hash": None, "token_ids": list(range(16)),
        "block_size": 16, "medium": "GPU",
    }  # fmt: skip
    return msgspec.msgpack.encode([float(round(time.time())), [stored], rank])
