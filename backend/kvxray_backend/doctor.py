"""What this machine has: one sentence a thing. Looks, and changes nothing but a probe file that it removes again."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kvxray_engine.errors import UserError

Level = Literal["good", "optional", "missing"]

CPU_FEATURES: Final = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 bf16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "sve": "SVE",
}
ENGINE_PORTS: Final = {8000: "engine API", 5570: "events", 5571: "replay"}
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. level: good; optional: works without; missing: something will not work."""

    name: str
    level: Level
    sentence: str

    @property
    def mark(self) -> str:
        return {"good": "ok      ", "optional": "optional", "missing": "MISSING "}[self.level]

    def as_json(self) -> dict[str, str]:
        return {"level": self.level, "sentence": self.sentence}


def examine() -> list[Check]:
    """All checks, in the order a newcomer meets them."""
    looks: tuple[Callable[[], Check], ...] = (
        check_python, check_cpu, check_memory, check_torch, check_gpu, check_triton, check_model, check_dashboard,
        check_database, check_browser, check_ports,
    )  # fmt: skip
    return [look() for look in looks]


def check_python() -> Check:
    told = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}."
    return Check("Python", "good", told)


def check_cpu() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    flags = cpu_flags()
    found = [label for flag, label in CPU_FEATURES.items() if flag in flags]
    told = f"with {', '.join(found)}" if found else "whose vector extensions could not be read"
    return Check("CPU", "good", f"{cores} core{'s' if cores != 1 else ''} {told}.")


def cpu_flags() -> set[str]:
    """The kernel's flags of the first core; empty where it does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def check_memory() -> Check:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return Check("Memory", "optional", "How much memory there is could not be read.")
    gib = total / 2**30
    if gib < 2:
        return Check("Memory", "optional", f"{gib:.1f} GiB: run the demo with --model tiny; SmolLM2 wants 2.5 GB.")
    return Check("Memory", "good", f"{gib:.1f} GiB.")


def check_torch() -> Check:
    if not _installed("torch"):
        return Check("torch", "missing", "Not installed, so no engine runs here (the extra engine).")
    return Check("torch", "good", f"torch {_version('torch')}.")


def check_gpu() -> Check:
    if not _installed("torch"):
        return Check("GPU", "optional", "Not looked for: that needs torch.")
    import torch

    if not torch.cuda.is_available():
        return Check("GPU", "optional", "None that torch can use; the engine runs on the CPU.")
    device = torch.cuda.get_device_properties(0)
    fp8 = "fp8 caches too" if (device.major, device.minor) >= (8, 9) else "no fp8 caches: int8 takes little more"
    return Check("GPU", "good", f"{device.name}, {device.total_memory / 2**30:.0f} GiB; {fp8}.")


def check_triton() -> Check:
    gpu = check_gpu().level == "good"
    if _installed("triton"):
        used = "the engine's kernels run on the GPU" if gpu else "unused, as there is no GPU"
        return Check("triton", "good", f"triton {_version('triton')}; {used}.")
    told = "so the engine leaves the GPU alone and runs on the CPU" if gpu else "and only GPU kernels need it"
    return Check("triton", "optional", f"Not installed, {told} (the extra gpu).")


def check_model() -> Check:
    if not _installed("torch"):
        return Check("Model", "optional", "Not looked for: that needs kvxray[engine].")
    from kvxray_engine.model_store import smollm2_folder

    folder = smollm2_folder()
    if folder is None:
        return Check("Model", "optional", "SmolLM2 is not fetched yet (kvxray model fetch, 93 MB).")
    return Check("Model", "good", f"SmolLM2 is ready in {folder}.")


def check_dashboard() -> Check:
    absent = [name for name in ("fastapi", "uvicorn", "streamlit", "sqlalchemy", "alembic") if not _installed(name)]
    if absent:
        return Check("Dashboard", "missing", f"{', '.join(absent)} not installed (the extra dashboard).")
    return Check("Dashboard", "good", f"streamlit {_version('streamlit')}, fastapi {_version('fastapi')}.")


def check_database() -> Check:
    if not _installed("sqlalchemy") or not _installed("alembic"):
        return Check("Database", "optional", "Not looked for: that needs kvxray[dashboard].")
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    from kvxray_backend.settings import load_settings

    try:
        url = make_url(load_settings().database)
    except UserError as error:
        return Check("Database", "missing", str(error))
    except ArgumentError:
        return Check("Database", "missing", "KVXRAY_DATABASE_URL is no address such as sqlite:////home/me/kvxray.db.")
    if url.get_backend_name() != "sqlite":
        return Check("Database", "good", f"{url.render_as_string(hide_password=True)} (not contacted).")
    return _check_folder(Path(url.database or "").expanduser().parent, url.database or "")


def _check_folder(folder: Path, database: str) -> Check:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        return Check("Database", "missing", f"{existing} cannot be written ({reason}): set KVXRAY_DATA_DIR.")
    free = shutil.disk_usage(existing).free / 2**30
    return Check("Database", "good", f"SQLite at {database}, {free:.1f} GiB free there.")


def check_browser() -> Check:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        return Check("Browser", "optional", "No Chromium found; only the browser tests need one on this machine.")
    return Check("Browser", "good", f"{found}.")


def check_ports() -> Check:
    ports = {_page_port(): "page"} | ENGINE_PORTS
    taken = [f"{port} ({use})" for port, use in ports.items() if not _is_free(port)]
    if taken:
        return Check("Ports", "optional", f"In use: {', '.join(taken)}. The demo takes others by --port and the like.")
    return Check("Ports", "good", f"{', '.join(str(port) for port in ports)} are free.")


def _page_port() -> int:
    text = os.environ.get("KVXRAY_PORT", "")
    return int(text) if text.isdecimal() and int(text) <= 65_535 else 8501


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"
