"""Plain data out of a YAML or JSON text that may be anything: bounded in size and depth, nothing said twice."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml
from kvxray_engine.errors import UserError

MAX_BYTES: Final = 512 << 10
MAX_DEPTH: Final = 16

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plain(text: bytes, name: str) -> Any:
    """name: of the file, which says what is in it: JSON where it ends so, else YAML. Raises `UserError`, a sentence
    without the name.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"It is larger than {MAX_BYTES >> 10} KiB.")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"It is no text: byte {error.start} is not UTF-8.") from error
    return _read_json(decoded) if name.endswith(".json") else _read_yaml(decoded)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        raise UserError(f"It is no JSON: {error.msg.lower()} (line {error.lineno}).") from error
    except ValueError as error:
        # What Python does not make of a number with thousands of digits.
        raise UserError("It is no JSON that can be read: a number in it is too long.") from error
    except RecursionError as error:
        raise UserError(f"It is nested deeper than {MAX_DEPTH} levels.") from error


def _read_yaml(text: str) -> Any:
    try:
        _look_through(text)
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise UserError(f"It is no YAML: {error.problem or error.context}{where}.") from error
    except yaml.YAMLError as error:
        raise UserError(f"It is no YAML: {str(error).splitlines()[0].rstrip('.')}.") from error


class _Loader(_LOADER):  # type: ignore[misc]
    """Says of a value that is not what its tag or its looks say where it stands: yaml lets go what Python raises."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:
            kind = str(node.tag).rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                problem=f"{str(node.value)[:80]!r} is no {kind} that can be read", problem_mark=node.start_mark
            ) from error


def _look_through(text: str) -> None:
    """Before anything is made of it: an alias may stand for a million copies of what it names."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise UserError(f"It uses an alias (line {event.start_mark.line + 1}); write out what it stands for.")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UserError(f"It is nested deeper than {MAX_DEPTH} levels (line {event.start_mark.line + 1}).")
    _no_node_twice(yaml.compose(text, Loader=_LOADER))


def _no_node_twice(node: Any) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            told = str(key.value)
            if told in seen:
                raise UserError(f"It says {told[:80]!r} twice (line {key.start_mark.line + 1}).")
            seen.add(told)
            _no_node_twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            _no_node_twice(one)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"It says {twice[:80]!r} twice.")
    return found
