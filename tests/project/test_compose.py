"""docker-compose.yml and what it builds from name nothing that the project does not have.

No Docker engine is needed; `tests/integration/test_compose_by_hand.py` runs the same commands without one.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from kvxray_backend.cli import build_parser
from kvxray_backend.settings import SourceSpec

from tests.compose_file import RAW, ROOT, fill_in, variables

SERVICES = RAW["services"]
OURS = [name for name in SERVICES if name != "postgres"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETTINGS_DOC = (ROOT / "docs" / "settings.md").read_text()
COMPOSE_DOC = (ROOT / "docs" / "compose.md").read_text()
EXAMPLE = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.M))
SECRETS = {"KVXRAY_TOKEN": "a-token", "KVXRAY_POSTGRES_PASSWORD": "a-password"}
OF_OTHERS = {"PGPASSWORD", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
"""libpq's, and the image's of PostgreSQL."""


def dockerfile_of(service: str) -> str:
    return (ROOT / SERVICES[service]["build"]["dockerfile"]).read_text()


def words_after(instruction: str, dockerfile: str) -> list[list[str]]:
    return [line.split()[1:] for line in dockerfile.splitlines() if line.startswith(f"{instruction} ")]


def arguments_of(service: str) -> dict[str, str]:
    """The build's arguments: the Dockerfile's defaults, and what the service gives instead."""
    defaults = dict(re.findall(r'^ARG (\w+)="?([^"\n]*)"?$', dockerfile_of(service), re.M))
    given = SERVICES[service]["build"].get("args", {})
    assert given.keys() <= defaults.keys()
    return defaults | given


# Commands and settings


@pytest.mark.parametrize("service", OURS)
def test_every_command_is_one_of_ours_with_options_that_exist(service):
    options = build_parser().parse_args(fill_in(SERVICES[service]["command"], SECRETS))
    assert options.command == SERVICES[service]["command"][0]


def test_the_backend_follows_the_engine_where_it_is():
    parser = build_parser()
    [source] = parser.parse_args(SERVICES["backend"]["command"]).source
    assert SourceSpec(**source).api
    for name in ("engine", "engine-gpu"):
        engine = parser.parse_args(fill_in(SERVICES[name]["command"], SECRETS))
        assert source["name"] == engine.source
        assert source["events"] == f"tcp://127.0.0.1:{engine.events_port}"
        assert source["replay"] == f"tcp://127.0.0.1:{engine.replay_port}"
        assert source["api"] == f"http://127.0.0.1:{engine.port}"
        # 127.0.0.1 is the engine's only because they share it.
        assert SERVICES[name]["network_mode"] == "service:backend"
        assert engine.device == ("cpu" if name == "engine" else "cuda")


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_is_documented(service):
    for name in SERVICES[service]["environment"]:
        assert name in OF_OTHERS or f"`{name}`" in SETTINGS_DOC


# Variables


def test_every_variable_is_documented_and_in_the_example():
    names = {variable["name"] for variable in variables()}
    assert names | {"COMPOSE_PROFILES"} == set(EXAMPLE)
    for name in names:
        assert f"`{name}`" in COMPOSE_DOC


def test_secrets_have_no_default_and_are_asked_for():
    for variable in variables():
        is_secret = re.search("TOKEN|PASSWORD", variable["name"]) is not None
        assert (variable["operator"] == "?") == is_secret
        assert variable["rest"] or variable["name"] == "KVXRAY_DIGEST_KEY"
    for secret in SECRETS:
        assert EXAMPLE[secret] == ""
        with pytest.raises(KeyError, match=f"{secret}: set it in .env"):
            fill_in(RAW, SECRETS | {secret: ""})


def test_the_examples_values_are_the_defaults():
    for variable in variables():
        assert variable["operator"] == "?" or EXAMPLE[variable["name"]] == variable["rest"]


# Ports, profiles, health


@pytest.mark.parametrize("service", SERVICES)
def test_only_loopback_ports_lead_in(service):
    parser = build_parser()
    inside = {8501, parser.parse_args(["engine"]).port}
    for port in fill_in(SERVICES[service].get("ports", []), SECRETS):
        address, outer, inner = port.split(":")
        assert ipaddress.ip_address(address).is_loopback
        assert 0 < int(outer) < 65536
        assert int(inner) in inside
    assert "ports" not in SERVICES["postgres"]


def test_one_engine_starts_the_cpus_unless_told_otherwise():
    assert {name: SERVICES[name].get("profiles", []) for name in SERVICES} == {
        "postgres": [], "backend": [], "engine": ["cpu"], "engine-gpu": ["gpu"],
    }  # fmt: skip
    assert EXAMPLE["COMPOSE_PROFILES"] == "cpu"
    [device] = SERVICES["engine-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}


def test_each_waits_for_what_it_needs_to_be_healthy():
    assert all(service["healthcheck"]["test"][0] == "CMD" for service in SERVICES.values())
    assert SERVICES["backend"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("engine", "engine-gpu"):
        # A backend that is made anew has another network.
        assert SERVICES[name]["depends_on"] == {"backend": {"condition": "service_healthy", "restart": True}}


def test_every_volume_is_declared_and_the_models_are_where_the_engine_keeps_them():
    used = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == set(RAW["volumes"])
    for name in ("engine", "engine-gpu"):
        folder = SERVICES[name]["environment"]["KVXRAY_CACHE_DIR"]
        assert f"models:{folder}" in SERVICES[name]["volumes"]
        assert f"install -d -o kvxray {folder}" in dockerfile_of(name)


# Images


@pytest.mark.parametrize("service", OURS)
def test_an_image_installs_extras_that_exist_and_runs_our_command(service):
    text = dockerfile_of(service)
    for name, value in arguments_of(service).items():
        text = text.replace(f"${name}", value)
    [extras] = re.findall(r"['\"]\.\[([\w,]+)\]['\"]", text)
    known = PROJECT["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    assert set(extras.split(",")) == {
        "backend": {"dashboard", "postgres"}, "engine": {"engine"}, "engine-gpu": {"engine", "gpu"},
    }[service]  # fmt: skip
    [entry] = words_after("ENTRYPOINT", text)
    assert entry == ['["kvxray"]']
    assert "kvxray" in PROJECT["project"]["scripts"]
    assert words_after("USER", text) == [["kvxray"]]
    [[base]] = words_after("FROM", text)
    assert base == f"python:{PROJECT['project']['requires-python'].removeprefix('>=')}-slim"


@pytest.mark.parametrize("service", ["backend", "engine"])
def test_what_an_image_copies_is_let_in_and_is_all_that_the_wheel_needs(service, tmp_path):
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for *sources, target in words_after("COPY", dockerfile_of(service)):
        for source in sources:
            assert source in let_in
            copy(ROOT / source, tmp_path / "image" / (source if target == "./" else target))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    done = subprocess.run([*build, str(tmp_path / "image")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"kvxray_app/main.py", "kvxray_app/components/block_map.js", "kvxray_backend/cli.py"} <= set(names)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
