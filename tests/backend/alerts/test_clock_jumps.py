"""Our clock jumps years ahead, and back: rules over metrics are known again soon, not when it has caught up."""

from __future__ import annotations

import time

import pytest
from kvxray_backend.alerts import steady_time
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.reading import read_page
from kvxray_backend.metrics.scraper import Scrape
from kvxray_engine.clock import SystemClock
from kvxray_storage.signal_minutes import read_minutes

from tests.backend.served import backend_of, serving, until

YEARS_S = 10**9
OWN = """
rules:
- {name: Used, sentence: It is used., when: [{now: kv_usage, above: 0.5}]}
- {name: Pressed, sentence: It gives up requests., when: [{grown: preemptions, over: 10m, above: 50}]}
"""


class Jumping:
    """A server whose clock is `ahead_s` of the right one, and the pages of the engine that it reads."""

    def __init__(self):
        self.http = self.backend = None
        self.ahead_s, self.total = 0.0, 0

    def page(self, usage, grown=0, at_s=None):
        self.total += grown
        engine = self.backend.observed.all[0]
        text = f"vllm:kv_cache_usage_perc {usage}\nvllm:num_preemptions_total {self.total}\n"
        page = parse_page(text.encode())
        engine._take_page(Scrape(at_s or time.time() + self.ahead_s, page, read_page(page)))

    def stands(self, rule):
        self.backend.alerts.look()
        state = self.backend.alerts.state_of(rule, "e")
        return None if state is None or state.unknown_since_s is not None else state.state


@pytest.fixture
def jumping(tmp_path, monkeypatch):
    monkeypatch.setattr(steady_time, "SETTLE_S", 0.1)
    (tmp_path / "own.yaml").write_text(OWN)
    one = Jumping()
    monkeypatch.setattr(SystemClock, "wall_ns", lambda clock: time.time_ns() + int(one.ahead_s * 1e9))
    with serving(tmp_path, rules=(tmp_path / "own.yaml",)) as http:
        one.http, one.backend = http, backend_of(http)
        # Nobody answers there: the test brings its pages.
        told = {"name": "e", "make": "vllm", "metrics": "http://127.0.0.1:1/metrics", "every_s": 300}
        assert http.post("/api/engines", json=told).status_code == 201
        until(lambda: one.backend.observed.all and one.backend.observed.all[0].watch)
        yield one


def test_what_is_read_after_the_clock_was_set_back_is_known(jumping):
    jumping.page(0.9)
    until(lambda: jumping.stands("Used") == "firing")
    jumping.ahead_s = YEARS_S
    jumping.page(0.9)
    until(lambda: jumping.stands("Used") == "firing")
    jumping.ahead_s = 0.0
    until(lambda: jumping.page(0.1) or jumping.stands("Used") == "inactive", 20)
    alerts = jumping.http.get("/api/alerts", params={"state": "over", "rule": "Used"}).json()["alerts"]
    assert [one["alert"]["over_because"] for one in alerts] == [""], "it was seen to be over, once"


def test_nothing_of_before_becomes_new_again(jumping):
    jumping.page(0.1)
    jumping.page(0.1, grown=40)
    jumping.ahead_s = -300.0
    jumping.page(0.1)
    jumping.page(0.1, grown=20)
    until(lambda: jumping.stands("Pressed") == "inactive")
    jumping.page(0.1, grown=40)
    until(lambda: jumping.stands("Pressed") == "firing")


def test_minutes_are_stored_again_also_after_a_restart(jumping, tmp_path):
    jumping.page(0.1)
    jumping.ahead_s = YEARS_S
    jumping.page(0.2)
    jumping.ahead_s = YEARS_S + 120
    jumping.page(0.2)
    jumping.ahead_s = 0.0
    jumping.page(0.3)
    jumping.ahead_s = 120.0
    jumping.page(0.4)
    jumping.backend.signals.close()
    now_s = time.time()
    stored = read_minutes(jumping.backend.database, "e", int(now_s) - 600, int(now_s) + 600, 99)
    assert len(stored) >= 2
    assert any(one.t_s > now_s + 30 for one in stored)


def test_a_prometheus_whose_clock_is_ahead_of_ours_is_read_on(jumping):
    jumping.page(0.1, at_s=time.time() + 100)
    jumping.page(0.1, grown=60, at_s=time.time() + 105)
    engine = jumping.backend.observed.all[0]
    assert engine.watch.book.value("kv_usage") == 0.1
    assert [one.stretch.told["preemptions", ""].amount for one in jumping.backend.signals.newer("e", 0)[1:]] == [60]
