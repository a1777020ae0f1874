"""Engines as they are typed: each begins with its make, and what follows up to the next is about it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from kvxray_engine.errors import UserError

from kvxray_backend.loopback import is_loopback
from kvxray_backend.observed.entries import Entry, read_entry
from kvxray_backend.source_name import as_source_name
from kvxray_backend.sources.foreign.endpoint import WILDCARDS

Raw = dict[str, Any]
_MANY: Final = ("match", "labels")
_FLAGS: Final = {"bind": True, "expand": "dns"}


def typed_engines(told: Iterable[tuple[str, Any]], makes: Container[str]) -> list[Entry]:
    """told: option by option, in order. What stands before the first make is about the first engine. Raises
    `UserError`.
    """
    groups: list[Raw] = [{}]
    for field, value in told:
        if field in makes:
            if "make" in groups[-1]:
                groups.append({})
            groups[-1] |= {"make": field} | ({"events": value} if value else {})
        else:
            _note(groups[-1], field, value)
    names: set[str] = {group["name"] for group in groups if "name" in group}
    return [_entry(group, names) for group in groups if group]


def _note(group: Raw, field: str, value: Any) -> None:
    if field in _MANY:
        group[field] = {**group.get(field, {}), value[0]: value[1]}
    elif field in _FLAGS:
        group[field] = _FLAGS[field]
    elif field in group:
        option = "--every" if field == "every_s" else f"--{field.replace('_', '-')}"
        raise UserError(f"{option} is given twice for one engine: begin another with its make, such as --vllm.")
    else:
        group[field] = value


def _entry(group: Raw, names: set[str]) -> Entry:
    raw = {"make": "other", **group}
    if "file_sd" in raw:
        if "events" in raw:
            raise UserError("--file-sd names its engines itself: write the make without an address, and --events-port.")
        return read_entry(raw)
    if "name" not in raw:
        raw["name"] = _free_name(raw, names)
        names.add(raw["name"])
    return read_entry(raw)


def _free_name(raw: Raw, names: set[str]) -> str:
    """By its host, its port where that is taken, a number where that is taken too: the same for the same command."""
    address = raw.get("events") or raw.get("metrics") or ""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if host in WILDCARDS or is_loopback(host):
        host = ""
    name = raw.get("match", {}).get("pod") or as_source_name(host) or raw["make"]
    wished = [name, f"{name}-{port}"] if port is not None else [name]
    return next(one for one in (*wished, *(f"{name}-{n}" for n in range(2, 10_000))) if one not in names)
