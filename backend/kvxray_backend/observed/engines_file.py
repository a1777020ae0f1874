"""A file that names engines to watch, YAML or JSON: `engines`, a list of entries, or that list alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvxray_engine.errors import UserError

from kvxray_backend.observed.entries import Entry, check_names, read_entry
from kvxray_backend.observed.plain_data import MAX_BYTES, read_plain
from kvxray_backend.observed.spec import BadSpec, ObserveSpec
from kvxray_backend.observed.target_list import TargetList, targets_of

MAX_ENTRIES: Final = 1024


def read_file(path: Path) -> bytes:
    """At most a byte more than may be taken. Raises `UserError`."""
    try:
        if not path.is_file():
            raise UserError(f"The file {path} is not there." if not path.exists() else f"{path} is no file.")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"The file {path} cannot be read: {reason}.") from error


def entries_of(path: Path, text: bytes) -> list[Entry]:
    """Raises `UserError`, one sentence that names the file. Target lists are relative to it."""
    try:
        raw = read_plain(text, path.name)
        listed = _listed(raw)
        entries = [_read(number, one) for number, one in enumerate(listed, 1)]
        check_names([one for one in entries if isinstance(one, ObserveSpec)])
    except UserError as error:
        raise UserError(f"Mend the file {path}: {_beginning_small(error)}") from error
    return [_beside(path, one) for one in entries]


def targets_in(entry: TargetList, text: bytes) -> list[ObserveSpec]:
    """The engines of a list of targets, whose file holds `text`. Raises `UserError`, likewise."""
    try:
        specs = targets_of(entry, read_plain(text, entry.file_sd))
        check_names(specs)
    except UserError as error:
        raise UserError(f"Mend the file {entry.file_sd}: {_beginning_small(error)}") from error
    return specs


def _listed(raw: Any) -> list[Any]:
    if isinstance(raw, Mapping):
        unknown = next((str(name) for name in raw if name != "engines"), None)
        if unknown is not None:
            raise UserError(f"There is no {unknown[:80]!r}: what it holds is engines, a list.")
        raw = raw.get("engines")
    # A file that was just made, or whose last engine went.
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise UserError("What it holds is engines, a list.")
    if len(raw) > MAX_ENTRIES:
        raise UserError(f"It has more than {MAX_ENTRIES:,} entries.")
    return raw


def _read(number: int, raw: Any) -> Entry:
    try:
        return read_entry(raw)
    except BadSpec as error:
        name = raw.get("name") if isinstance(raw, Mapping) else None
        which = f"engine {name[:80]!r}" if isinstance(name, str) else f"entry {number}"
        raise UserError(f"{which}: {_beginning_small(error)}") from error


def _beside(path: Path, entry: Entry) -> Entry:
    if isinstance(entry, TargetList):
        return entry.model_copy(update={"file_sd": str(path.parent / entry.file_sd)})
    return entry


def _beginning_small(error: Exception) -> str:
    """What stands behind a colon; names stay as they are."""
    text = str(error)
    return text if text[:2].isalpha() and text[:2].isupper() else text[:1].lower() + text[1:]
