"""What people get when they install kvxray: every file, no stray top-level names, and no more than they asked for."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "kvxray_app": ROOT / "app",
    "kvxray_backend": ROOT / "backend",
    "kvxray_engine": ROOT / "engine",
    "kvxray_kernels": ROOT / "kernels",
    "kvxray_storage": ROOT / "storage",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_file_of_every_package(wheel: zipfile.ZipFile) -> None:
    expected = {
        str(path.relative_to(folder))
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".DS_")
    }
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_every_top_level_name_starts_with_kvxray(wheel: zipfile.ZipFile) -> None:
    assert all(name.partition("/")[0].startswith("kvxray") for name in wheel.namelist())


def test_the_folders_that_hold_packages_are_no_packages() -> None:
    assert not [folder for folder in PACKAGES.values() if (folder / "__init__.py").exists()]


def test_the_base_installation_needs_neither_torch_nor_a_web_server() -> None:
    needed = {name.split(">")[0].strip() for name in metadata.requires("kvxray") or [] if "extra ==" not in name}
    assert needed == {"numpy", "msgspec", "pyzmq", "zstandard"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("kvxray_engine.stream.publisher", ["torch", "fastapi", "sqlalchemy", "streamlit"]),
        ("kvxray_engine.stream.subscriber", ["torch", "fastapi", "sqlalchemy", "streamlit"]),
        ("kvxray_engine.engine", ["torch", "fastapi", "sqlalchemy", "streamlit"]),
        ("kvxray_backend.cli", ["torch", "fastapi", "sqlalchemy", "streamlit"]),
        ("kvxray_backend.main", ["torch", "transformers"]),
        ("kvxray_storage.event_log", ["torch", "fastapi", "streamlit"]),
        ("kvxray_app.theme", ["torch", "fastapi", "sqlalchemy", "kvxray_backend"]),
        ("kvxray_app.client", ["torch", "fastapi", "sqlalchemy", "kvxray_backend"]),
    ],
)
def test_importing_stays_light(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; sys.exit(', '.join(m for m in {absent!r} if m in sys.modules) or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{module} imports {done.stderr}"


def test_help_and_mistakes_work_in_the_base_installation() -> None:
    """Everything beyond the base is hidden: help still works, and a command that needs more says what to install."""
    hidden = ["torch", "fastapi", "uvicorn", "streamlit", "sqlalchemy", "pydantic_settings", "pydantic", "httpx2"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); from kvxray_backend.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    helped = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert helped.returncode == 0, helped.stderr
    served = subprocess.run([sys.executable, "-c", code, "serve"], capture_output=True, text=True, check=False)
    assert served.returncode == 2
    assert "pip install 'kvxray[dashboard]'" in served.stderr
    assert "Traceback" not in served.stderr
    calc = [sys.executable, "-c", code, "calc", "--model", "llama-2-70b", "--tokens", "32768"]
    computed = subprocess.run(calc, capture_output=True, text=True, check=False)
    assert "10,737,418,240 bytes" in computed.stdout
