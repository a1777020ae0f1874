"""docker-compose.yml as plain data, with its variables filled in as Compose does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docker-compose.yml").read_text()
RAW: dict[str, Any] = yaml.safe_load(TEXT)
# ${NAME}, ${NAME:-default}, ${NAME:?what to do}
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<operator>[-?])(?P<rest>[^}]*))?\}")


def variables() -> list[re.Match[str]]:
    return list(VARIABLE.finditer(TEXT))


def fill_in(value: Any, values: Mapping[str, str]) -> Any:
    """`value` with its variables replaced; one that is required and not given, or empty, is a KeyError."""
    if isinstance(value, dict):
        return {key: fill_in(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [fill_in(each, values) for each in value]
    return VARIABLE.sub(lambda found: _value(found, values), value) if isinstance(value, str) else value


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    given = values.get(found["name"], "")
    if not given and found["operator"] != "-":
        raise KeyError(f"{found['name']}: {found['rest']}")
    return given or found["rest"]
