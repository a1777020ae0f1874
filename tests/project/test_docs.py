"""The docs name everything a person can type, set, see or ask for."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvxray_backend.cli import COMMANDS, build_parser
from kvxray_backend.main import create_app
from kvxray_backend.settings import ENV_PREFIX, Settings, load_settings
from kvxray_engine.stream.schema import BlockState, Cause, Kind

ROOT = Path(__file__).parents[2]
COMMANDS_DOC = (ROOT / "docs" / "commands.md").read_text()
SETTINGS_DOC = (ROOT / "docs" / "settings.md").read_text()
EVENTS_DOC = (ROOT / "docs" / "events.md").read_text()
API_DOC = (ROOT / "docs" / "api.md").read_text()
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def parsers(parser: argparse.ArgumentParser, name: str = "kvxray") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child_name, child in action.choices.items():
                yield from parsers(child, f"{name} {child_name}")


ALL_PARSERS = dict(parsers(build_parser()))
ALL_OPTIONS = [
    (name, option)
    for name, parser in ALL_PARSERS.items()
    for action in parser._actions
    if action.help != argparse.SUPPRESS
    for option in action.option_strings
    if option.startswith("--") and option not in ("--help", "--version")
]


@pytest.mark.parametrize("name", ALL_PARSERS)
def test_every_command_is_documented(name: str) -> None:
    assert f"`{name}" in COMMANDS_DOC


@pytest.mark.parametrize(("name", "option"), ALL_OPTIONS)
def test_every_option_is_documented_under_its_command(name: str, option: str) -> None:
    section = COMMANDS_DOC.split(f"## `{' '.join(name.split()[:2])}")[1].split("\n## ")[0]
    assert f"`{option}" in section


@pytest.mark.parametrize("name", ALL_PARSERS)
def test_every_option_has_help(name: str) -> None:
    parser = ALL_PARSERS[name]
    assert parser.description
    assert all(action.help for action in parser._actions if not isinstance(action, argparse._SubParsersAction))


def test_no_command_is_documented_that_does_not_exist() -> None:
    assert set(re.findall(r"^## `kvxray (\w+)", COMMANDS_DOC, re.M)) == set(COMMANDS)


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_documented(field: str) -> None:
    assert f"`{ENV_PREFIX}{field.upper()}`" in SETTINGS_DOC
    assert Settings.model_fields[field].description


def environment_names() -> set[str]:
    folders = ("app", "backend", "engine", "kernels", "storage")
    sources = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {name for source in sources for name in re.findall(r"KVXRAY_[A-Z]+(?:_[A-Z]+)*", source)}


@pytest.mark.parametrize("name", sorted(environment_names()))
def test_every_environment_variable_the_code_names_is_documented(name: str) -> None:
    assert f"`{name}`" in SETTINGS_DOC


@pytest.mark.parametrize("kind", [kind.name for kind in Kind])
def test_every_event_kind_is_documented(kind: str) -> None:
    assert f"`{kind}`" in EVENTS_DOC


@pytest.mark.parametrize("cause", [cause.name for cause in Cause])
def test_every_cause_is_documented(cause: str) -> None:
    assert f"`{cause}`" in EVENTS_DOC


@pytest.mark.parametrize("state", [state.name for state in BlockState])
def test_every_block_state_is_documented(state: str) -> None:
    assert f"`{state}`" in EVENTS_DOC


def finding_kinds() -> set[str]:
    analysis = (ROOT / "backend" / "kvxray_backend" / "analysis").glob("*.py")
    written = re.compile(r'(?:kind=|\.finding\(\s*)"([a-z_]+)"')
    told = {kind for path in analysis for kind in written.findall(path.read_text())}
    assert {"leak", "gap", "storage"} <= told, "the kinds are no longer found where they were"
    return told | {"ref_underflow", "double_free"}


@pytest.mark.parametrize("kind", sorted(finding_kinds()))
def test_every_kind_of_finding_is_documented(kind: str) -> None:
    assert f"| `{kind}` |" in EVENTS_DOC


def routes() -> list[str]:
    app = create_app(load_settings(page=False, database_url=f"sqlite:///{tempfile.mkdtemp()}/kvxray.db"))
    return sorted(app.openapi()["paths"])


@pytest.mark.parametrize("route", routes())
def test_every_route_is_documented(route: str) -> None:
    assert re.search(rf"`(GET|POST|DELETE) {re.escape(route)}[`?]", API_DOC)


def test_the_live_socket_is_documented() -> None:
    assert "`WebSocket /api/live" in API_DOC


def test_the_architecture_names_every_module() -> None:
    missing = [
        path.stem
        for folder in ("app", "backend", "engine", "kernels", "storage")
        for path in (ROOT / folder).rglob("*.py")
        if path.stem != "__init__" and "versions" not in path.parts and f"{path.name}" not in ARCHITECTURE
    ]
    assert not missing


def test_links_between_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_says_how_to_begin() -> None:
    for words in ("make demo", "make test", "http://127.0.0.1:8501", "Chromium"):
        assert words in README
