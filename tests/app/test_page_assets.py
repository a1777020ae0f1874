"""The page's files: every component is whole, every import leads somewhere, and nothing reaches beyond the origin."""

from __future__ import annotations

import re
from pathlib import Path

import kvxray_app.components
import pytest
from kvxray_app.components import live_component
from kvxray_app.words import FIGURES, STATES

COMPONENTS = Path(kvxray_app.components.__file__).parent
APP = COMPONENTS.parent
NAMES = sorted(path.stem for path in COMPONENTS.glob("*.py") if "\n    mount_live(" in path.read_text("utf-8"))
MODULES = sorted(COMPONENTS.glob("*.js"))


@pytest.mark.parametrize("name", NAMES)
def test_component_has_a_module_that_mounts_and_a_style(name: str) -> None:
    module = (COMPONENTS / f"{name}.js").read_text("utf-8")
    assert re.search(rf'^export const mount = define(Live)?Component\("{name}"', module, re.M)
    assert (COMPONENTS / f"{name}.css").is_file()


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_imports_lead_to_exports_and_are_used(module: Path) -> None:
    text = module.read_text("utf-8")
    for names, target in re.findall(r"import \{([^}]*)\} from \"\./([\w.]+)\"", text):
        exported = (COMPONENTS / target).read_text("utf-8")
        for name in filter(None, (part.strip() for part in names.split(","))):
            assert re.search(rf"export (const|class|function|async function) {name}\b", exported), (target, name)
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{module.name} imports {name} and does not use it"


def test_every_module_is_used() -> None:
    imported = {target for module in MODULES for target in re.findall(r'from "\./([\w.]+)"', module.read_text("utf-8"))}
    assert {module.name for module in MODULES} == imported | {f"{name}.js" for name in NAMES}


def test_nothing_reaches_beyond_the_origin() -> None:
    namespace = "http://www.w3.org/2000/svg"
    examples = "http://HOST"  # what the attach form shows in its empty fields
    for path in APP.rglob("*"):
        if path.suffix in {".js", ".css", ".svg", ".py", ".toml"}:
            text = path.read_text("utf-8").replace(namespace, "").replace("http://{host}", "")
            text = text.replace(examples, "")
            assert not re.search(r"(https?|wss?)://", text), path


def test_version_follows_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_component, "FOLDER", tmp_path)
    versions = set()
    for content in ("a", "b"):
        (tmp_path / "one.js").write_text(content)
        live_component.assets_version.cache_clear()
        versions.add(live_component.assets_version())
    live_component.assets_version.cache_clear()
    assert len(versions) == 2


def test_every_state_and_figure_has_its_words() -> None:
    assert set(STATES) == {"unknown", "empty", "free", "cached", "active", "shared"}
    for figure in FIGURES:
        assert figure.meaning.endswith(".")
        assert figure.no_data.endswith(".")
