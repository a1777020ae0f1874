"""The process of `kvxray engine`, with models that need no download: starts, serves, streams, ends when told to."""

import json
import urllib.request
from pathlib import Path

import openai
import pytest
from kvxray_engine.engine import EngineConfig
from kvxray_engine.errors import UserError
from kvxray_engine.serve_engine import ServeOptions, run
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.subscriber import SnapshotAnswered, Subscriber

from tests.engine.engine_process import Process
from tests.engine.openai_rig import until
from tests.engine.small_hf import write_folder

ANY_PORT = {"port": 0, "events_port": 0, "replay_port": 0}


def told_of(subscriber: Subscriber, request_id: str) -> bool:
    """Whether the engine's snapshot knows the request, and that it has ended and holds nothing."""
    subscriber.request_snapshot()
    for received in subscriber.receive(timeout_s=1.0):
        if isinstance(received, SnapshotAnswered) and received.data is not None:
            block_map = snapshot.load(received.data)
            request = block_map.requests.find(request_id)
            return request is not None and request.is_ended and not len(block_map.blocks_of(request.ordinal))
    return False


def test_it_serves_a_model_tells_its_events_and_ends_when_told_to() -> None:
    with Process("--model", "tiny", "--num-kv-blocks", "65") as engine:
        assert (engine.ready["ready"], engine.ready["model"]) == (True, "tiny")
        with Subscriber(engine.ready["events"], engine.ready["replay"]) as subscriber, engine.client() as client:
            answer = client.completions.create(model="tiny", prompt="Hello", max_tokens=4, temperature=0)
            assert answer.usage.completion_tokens == 4
            with urllib.request.urlopen(f"{engine.ready['api']}/requests/{answer.id}/text", timeout=30) as told:
                assert json.load(told) == {"request_id": answer.id, "text": answer.choices[0].text, "finished": True}
            until(lambda: told_of(subscriber, answer.id))
        code, errors = engine.end()
        assert (code, errors) == (
            0,
            "kvxray engine: 65 blocks of 16 tokens, 0.5 MB of CPU memory for a cache in float32\n",
        )


def test_it_serves_a_folder_under_the_names_it_is_given(tmp_path) -> None:
    folder = write_folder(tmp_path / "small-qwen", "qwen3")
    options = ["--model", str(folder), "--served-model-name", "first", "second", "--no-enable-prefix-caching",
               "--kv-cache-dtype", "fp8", "--max-model-len", "100", "--api-key", "secret"]  # fmt: skip
    with Process(*options) as engine, engine.client("secret") as client:
        assert engine.ready["model"] == "small-qwen"
        assert [model.id for model in client.models.list().data] == ["first", "second"]
        assert client.models.list().data[0].max_model_len == 100
        answer = client.chat.completions.create(
            model="second", messages=[{"role": "user", "content": "the cache"}], max_tokens=4
        )
        assert answer.model == "second"
        with pytest.raises(openai.AuthenticationError):
            engine.client("wrong").models.list()
        request = urllib.request.Request(engine.ready["api"] + "/metrics", headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request, timeout=30) as metrics:
            text = metrics.read().decode()
        assert 'enable_prefix_caching="False"' in text
        assert 'cache_dtype="fp8_e4m3"' in text
        assert 'vllm:generation_tokens_total{model_name="first",engine="0"} 4.0' in text


def test_its_memory_does_not_grow_with_every_new_number_of_tokens_in_a_step() -> None:
    options = ["--model", "tiny", "--quantization", "int8", "--no-enable-prefix-caching", "--num-kv-blocks", "65"]
    with Process(*options) as engine, engine.client() as client:

        def ask(num_tokens: int) -> None:
            client.completions.create(model="tiny", prompt=[65] * num_tokens, max_tokens=1)

        def resident_mib() -> int:
            lines = Path(f"/proc/{engine.process.pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024

        ask(400)
        before = resident_mib()
        for num_tokens in range(17, 400, 2):
            ask(num_tokens)
        assert resident_mib() - before < 200  # 120 seen, and 490 where torch kept a kernel for every number


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "huge"}, "no model called huge: choose smollm2 or tiny, or name a GGUF file"),
        (
            {"kv_cache_dtype": "fp8_e5m2"},
            "no cache dtype called fp8_e5m2: choose auto, fp32, fp16, bf16, fp8_e4m3, int8 or",
        ),
        ({"dtype": "int8"}, "no dtype called int8: choose auto, fp32 or bf16"),
        ({"device": "tpu"}, "no device called tpu: choose auto, cpu or cuda"),
        ({"host": "0.0.0.0"}, "set a token: give --api-key or set KVXRAY_TOKEN"),
        ({"host": "203.0.113.7", "api_key": "k"}, r"Cannot listen on 203\.0\.113\.7:0"),
        ({"model": "tiny", "gpu_memory_utilization": 1e-9}, "no room for a cache beside the weights"),
        ({"model": "tiny", "engine": EngineConfig(max_model_len=9999)}, "tiny reads at most 2048 tokens"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_sentence(options: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run(ServeOptions(**ANY_PORT | options))
