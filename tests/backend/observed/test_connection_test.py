"""An engine is tried before it is attached: over real sockets, what was found and what would be known of it."""

from __future__ import annotations

import socket
import threading

import pytest
from kvxray_backend.observed import trial_listener
from kvxray_backend.observed.connection_test import MAX_AT_ONCE, ConnectionTests
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_engine.errors import UserError

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.foreign.payloads import packed, stored
from tests.backend.metrics.pages import recorded_body
from tests.backend.metrics.web import serving, text
from tests.e2e.demo_rig import free_ports

PATIENCE_S = 60.0


def tried(**fields):
    return ConnectionTests().run(ObserveSpec(name="east", **fields))


def tried_while(rig, payloads, *, replay_s=PATIENCE_S, **fields):
    """While the engine publishes, once somebody hears it; however slow this machine is just now."""

    def publish():
        rig.wait_for_subscriber()
        rig.publish(payloads=payloads)

    speaking = threading.Thread(target=publish)
    speaking.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LISTEN_S", "QUIET_S"):
            patch.setattr(trial_listener, name, PATIENCE_S)
        patch.setattr(trial_listener, "REPLAY_S", replay_s)
        try:
            return tried(events=rig.events, **fields)
        finally:
            speaking.join()


def certainties(view):
    return {panel.panel: panel.certainty for panel in view.coverage}


def test_a_speaking_engine_with_metrics_tells_dialect_groups_capacity_and_what_will_be_exact():
    group = {"group_idx": 0, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 128}
    payloads = [
        packed(stored(block_size=32, **group), rank=1),
        packed(stored((3, 4), 2, block_size=32, **group), rank=1),
    ]
    with EngineRig() as rig, serving(text(recorded_body())) as web:
        view = tried_while(rig, payloads, replay=rig.replay, metrics=f"{web.url}/metrics")
    assert view.reachable
    events, metrics = view.events, view.metrics
    assert (events.state, events.batches, events.ranks, events.replay) == ("heard", 2, [1], "answers")
    assert "events as maps" in events.dialect
    assert [(group.kind, group.window) for group in events.groups] == [("sliding_window", 128)]
    assert (events.media, events.block_size) == (["GPU"], 32)
    assert (metrics.state, metrics.make, metrics.block_size, metrics.capacity_blocks) == ("read", "vllm", 32, 23)
    assert metrics.signals > 10
    known = certainties(view)
    assert known["cached_set"] == "exact"
    assert {known[one] for one in ("block_map", "holders", "ref_counts") if one in known} == {"not_observable"}
    assert view.findings == []
    assert view.sentence == "east: its events are heard and its metrics are read."


def test_an_idle_engine_tells_of_its_past_by_replay(monkeypatch):
    monkeypatch.setattr(trial_listener, "LISTEN_S", PATIENCE_S)
    with EngineRig() as rig:
        rig.publish(payloads=[packed(stored((n,), block_size=8), rank=0) for n in range(1, 51)], is_heard=False)
        view = tried(events=rig.events, replay=rig.replay)
    events = view.events
    assert (events.state, events.batches, events.replay, events.block_size) == ("heard", 50, "answers", 8)
    assert events.sentence == "Idle just now; by replay it told 50 batches of its past."
    assert certainties(view)["cached_set"] == "exact"


def test_an_idle_engine_without_replay_is_connected_and_silent():
    with EngineRig() as rig:
        view = tried(events=rig.events)
    assert view.reachable
    assert (view.events.state, view.events.batches, view.events.replay) == ("silent", 0, "none")
    assert view.events.sentence.startswith("Connected, and nothing was told within 4.5 s: an idle engine is silent")
    assert "exact" not in certainties(view).values()


def test_an_idle_engine_that_has_told_nothing_yet_is_silent_too():
    with EngineRig() as rig:
        view = tried(events=rig.events, replay=rig.replay)
    assert (view.events.state, view.events.replay) == ("silent", "answers")


def middle_of_a_stream(buffer_steps):
    """What the cached set will be, by a test that begins with batch 40 of an engine that can repeat so many."""
    with EngineRig(buffer_steps=buffer_steps) as rig:
        rig.publish(40, is_heard=False)
        view = tried_while(rig, [packed(stored())], replay=rig.replay)
    assert (view.events.state, view.events.batches, view.events.replay) == ("heard", 1, "answers")
    return certainties(view)["cached_set"]


def test_what_replay_reaches_back_to_decides_what_will_be_exact():
    assert middle_of_a_stream(buffer_steps=100) == "exact"
    assert middle_of_a_stream(buffer_steps=10) == "derived"


def test_an_engine_with_a_long_past_is_not_made_to_tell_it(monkeypatch):
    monkeypatch.setattr(trial_listener, "MAX_ASKED_AGAIN", 39)
    with EngineRig() as rig:
        rig.publish(40, is_heard=False)
        view = tried_while(rig, [packed(stored())], replay=rig.replay)
        assert rig.num_requests == 1
    assert certainties(view)["cached_set"] == "derived"


def test_a_replay_address_that_answers_nothing_is_said_to_be_silent():
    with EngineRig(answers=False) as rig:
        view = tried_while(rig, [packed(stored())], replay=rig.replay, replay_s=1.5)
    assert (view.events.state, view.events.replay) == ("heard", "silent")


def test_an_engine_that_is_not_there_is_refused_with_the_reason():
    [port] = free_ports(1)
    view = tried(events=f"tcp://127.0.0.1:{port}", metrics=f"http://127.0.0.1:{port}/metrics")
    assert not view.reachable
    assert (view.events.state, view.events.sentence) == (
        "refused", f"Nothing answers at tcp://127.0.0.1:{port}: connection refused.",
    )  # fmt: skip
    assert view.metrics.state == "failed"
    assert view.metrics.sentence == "Metrics cannot be read: nothing answers there: connection refused."
    assert set(certainties(view).values()) == {"not_observable"}


def test_the_port_of_something_else_is_told_from_that_of_events():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        view = tried(events=f"tcp://127.0.0.1:{port}")
    assert view.events.state == "refused"
    assert "it publishes nothing over ZeroMQ; is this the port of the events?" in view.events.sentence


def test_the_replay_port_given_for_that_of_events_is_noticed():
    with EngineRig() as rig:
        view = tried(events=rig.replay)
    assert view.events.state == "refused"
    assert "is this the port of the events?" in view.events.sentence


def test_where_an_engine_is_to_dial_in_and_does_not():
    [port] = free_ports(1)
    view = tried(events=f"tcp://127.0.0.1:{port}", bind=True)
    assert view.events.state == "silent"
    assert view.events.sentence.startswith(f"Nothing dialled in at tcp://127.0.0.1:{port} within 4.5 s")


def test_a_port_that_is_taken_is_said_so():
    with EngineRig() as rig:
        view = tried(events=rig.events, bind=True)
    assert view.events.state == "refused"
    assert view.events.sentence.startswith(f"Cannot listen at '{rig.events}': ")


def test_metrics_alone_and_those_of_another_make():
    with serving(text(recorded_body())) as web:
        view = tried(make="sglang", metrics=f"{web.url}/metrics", role="decode")
    assert (view.events.state, view.metrics.state) == ("none", "read")
    assert view.events.sentence == "No events are expected: this engine only decodes."
    assert view.findings == ["Its metrics are those of vllm, and it was said to be sglang."]


def test_a_page_of_nobody_is_read_and_tells_nothing():
    with serving(text("process_cpu_seconds_total 3\n")) as web:
        view = tried(metrics=f"{web.url}/metrics")
    assert (view.metrics.state, view.metrics.signals) == ("read", 0)
    assert "none is a metric that kvxray knows" in view.metrics.sentence


def test_why_the_prefix_cache_does_nothing_is_told_beforehand():
    page = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",enable_prefix_caching="False"} 1\n'
    with serving(text(page)) as web:
        view = tried(metrics=f"{web.url}/metrics")
    assert view.findings == ["Prefix caching is switched off: no request ever finds another's blocks."]


def test_events_and_metrics_of_different_block_sizes_are_doubted():
    page = 'vllm:cache_config_info{block_size="32",num_gpu_blocks="100",enable_prefix_caching="True"} 1\n'
    with EngineRig() as rig, serving(text(page)) as web:
        view = tried_while(rig, [packed(stored(block_size=16))], metrics=f"{web.url}/metrics")
    assert "Its events tell of blocks of 16 tokens and its metrics of 32: are both of the same engine?" in view.findings


def test_garbage_is_counted_and_hurts_nobody():
    with EngineRig() as rig:
        view = tried_while(rig, [b"\xc1 garbage", b"", packed(stored())])
    assert view.events.state == "heard"
    assert view.events.batches == 3
    assert view.findings == ["Left out of a batch: 1 event that could not be read."]


def test_events_over_http_are_not_taken_by_a_test():
    with serving(text("[]")) as web:
        view = tried(make="trtllm", events=f"{web.url}/kv_cache_events")
        assert web.seen == []
    assert (view.events.state, view.reachable) == ("silent", True)
    assert "each of them can be had only once" in view.events.sentence


def test_no_more_than_a_few_run_at_once():
    tests = ConnectionTests()
    over = threading.Event()
    begun = threading.Barrier(MAX_AT_ONCE + 1)

    def wait(handler):
        begun.wait(30)
        over.wait(30)
        text("")(handler)

    with serving(wait) as web:
        spec = ObserveSpec(name="east", metrics=f"{web.url}/metrics")
        running = [threading.Thread(target=tests.run, args=(spec,)) for _ in range(MAX_AT_ONCE)]
        for one in running:
            one.start()
        begun.wait(30)
        with pytest.raises(UserError, match=r"^4 engines are being tried already; try again in a few seconds\.$"):
            tests.run(spec)
        over.set()
        for one in running:
            one.join()
        web.answer = text(recorded_body())
        assert tests.run(spec).metrics.state == "read"
