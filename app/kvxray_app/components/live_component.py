"""How a live component is declared to Streamlit: an empty container, its style sheet and a loader for its module.

The loader's cleanup works even while the module is still loading: what is dropped before it was mounted never mounts.
What Streamlit's calls mean for a component's life is explained in `mount.js`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import streamlit as st

from kvxray_app.theme import palettes
from kvxray_app.words import glossary

FOLDER = Path(__file__).parent
LOOKS = {
    "health_line": ("health",),
    "findings_banner": ("finding",),
    "kpi_tiles": ("tile",),
    "residency": ("health", "finding", "tile", "tenants"),
    "alerts": ("trouble", "dialog"),
    "fleet": ("trouble", "dialog"),
    "overview": ("trouble", "tenants"),
    "signals": ("trouble",),
    "tenants": ("tenants",),
}
"""What several components draw alike (look_LOOK.css), by component."""

_LOADER = """
export default function (component) {
  const address = new URL("assets/kvxray/%(name)s.js?v=%(version)s", document.baseURI);
  let dropped = false;
  const mounted = import(address).then((module) => (dropped ? undefined : module.mount(component)));
  mounted.catch((error) => console.error("kvxray: a component could not be loaded", error));
  return () => {
    dropped = true;
    return mounted.then((cleanup) => cleanup?.(), () => undefined);
  };
}
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows: a source (None: the backend's first), its last moment (EPOCH.SEQ) where no engine goes on
    telling it, so that there is only a past, what it tells of: blocks (our own), hashes or metrics only, and the engine
    that it is a rank of.
    """

    source: str | None
    home: str | None = None
    kind: str = "blocks"
    engine: str | None = None
    is_one_of_many: bool = False

    @classmethod
    def of(cls, source: dict[str, Any], *, is_one_of_many: bool = False) -> Self:
        """From an entry of /api/sources; one that is read from a file has no present. Of one of many the address says
        which it is.
        """
        home = source.get("last_seq") if source.get("state") == "past" else None
        return cls(source["source"], home, source.get("kind", "blocks"), source.get("engine"), is_one_of_many)


Choose = Callable[[str], None]


def mount_live(name: str, shown: Shown, *, key: str, choose: Choose | None = None, **data: Any) -> None:
    """Put the live component `name` here. choose: is told the source that the reader chose in it."""
    address = {"source": shown.source, "home": shown.home, "is_one_of_many": shown.is_one_of_many}
    payload = {**address, "palettes": palettes(), "words": glossary(), **data}
    if choose is None:
        _renderer(name)(key=key, data=payload)
        return
    # Streamlit keeps what a component tells only where something listens to its changes.
    chosen = _renderer(name)(key=key, data=payload, on_source_change=lambda: None).source
    if chosen:
        choose(chosen)


@cache
def _renderer(name: str) -> Callable[..., Any]:
    """Streamlit's own function for a component; its registration is kept for the life of the process."""
    renderer: Callable[..., Any] = st.components.v2.component(
        f"kvxray.{name}",
        html='<div class="kx"></div>',
        css=style(name),
        js=_LOADER % {"name": name, "version": assets_version()},
    )
    return renderer


def style(name: str) -> str:
    """What a component looks like: what all have in common, what it draws like others, its own sheet, and those of its
    parts (NAME_PART.css).
    """
    looks = [FOLDER / f"look_{look}.css" for look in LOOKS.get(name, ())]
    sheets = FOLDER / "base.css", *looks, FOLDER / f"{name}.css", *sorted(FOLDER.glob(f"{name}_*.css"))
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


@cache
def assets_version() -> str:
    """Changes whenever a module of this folder does, so that no browser keeps an old one."""
    digest = blake2b(digest_size=6)
    for path in sorted(FOLDER.glob("*.js")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
