"""A template of the user's own for a webhook: text with placeholders that must come out as JSON, whatever the values.

A value is written so that it may stand between quotes; `tojson` writes it with them, and lists and objects whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import htmlsafe_json_dumps
from kvxray_engine.errors import UserError
from markupsafe import Markup

from kvxray_backend.delivery.bounded_time import TookTooLong, bounded_time

MAX_FILE_BYTES: Final = 64 << 10
MAX_BODY_CHARS: Final = 1 << 20
MAX_SECONDS: Final = 2.0
_FILE: Final = "<template>"
_MAX_RANGES: Final = 100_000
# They make something large of something small before anybody can count it.
_NO_FILTERS: Final = ("center", "indent", "pprint", "xmlattr", "format", "random", "batch", "slice")


class BadTemplate(Exception):
    """A template that cannot be used, or gives no JSON; says why in one sentence."""


class OwnTemplate:
    """Compiled once. `body` is safe to call from any thread."""

    def __init__(self, text: str) -> None:
        """Raises BadTemplate."""
        try:
            self._template: Template = _environment().from_string(text)
        except TemplateError as error:
            raise BadTemplate(_sentence(error)) from error

    def body(self, values: Mapping[str, Any]) -> bytes:
        """Raises BadTemplate: for what is missing, for what is no JSON, for what becomes too long or takes too long."""
        try:
            with bounded_time(MAX_SECONDS, _FILE):
                text = "".join(_capped(self._template.generate({**values, "range": _Ranges()})))
            json.loads(text, parse_constant=_no_number)
        except json.JSONDecodeError as error:
            raise BadTemplate(f"it does not give JSON: {error.msg} in line {error.lineno} of what it gives") from error
        except BadTemplate:
            raise
        except TookTooLong as error:
            raise BadTemplate(f"it takes longer than {MAX_SECONDS:g} s") from error
        # A template is a program: whatever it can raise, it is the template's.
        except Exception as error:
            raise BadTemplate(_sentence(error)) from error
        return text.encode()


def read_template(path: Path) -> OwnTemplate:
    """Raises UserError, one sentence."""
    try:
        with path.expanduser().open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise BadTemplate(f"it is larger than {MAX_FILE_BYTES >> 10} KiB")
        return OwnTemplate(raw.decode())
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"The template {path} cannot be read ({why}); KVXRAY_WEBHOOKS names it.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The template {path} is no text in UTF-8.") from error
    except BadTemplate as error:
        raise UserError(f"Mend the template {path}: {error}.") from error


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if not all(isinstance(value, int | float) and abs(value) < 1e9 for value in (left, right)) or operator == "**":
            raise BadTemplate(f"{operator} is for numbers that are not large")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> None:
        """Text has no `format` here: widths make it as large as anybody likes."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Of text only what makes no more of it."""
        if isinstance(obj, str):
            return attr in {"upper", "lower", "title", "strip", "split", "startswith", "endswith", "replace"}
        return super().is_safe_attribute(obj, attr, value)


def _environment() -> _Sandbox:
    environment = _Sandbox(undefined=StrictUndefined, finalize=_for_json, autoescape=False, trim_blocks=True)
    for name in _NO_FILTERS:
        environment.filters.pop(name, None)
    environment.filters["tojson"] = _to_json
    environment.globals = {}
    return environment


def _for_json(value: Any) -> Any:
    """What stands where a placeholder stood."""
    if isinstance(value, Markup) or callable(value):
        return value
    if isinstance(value, str):
        return Markup(json.dumps(value)[1:-1])
    if isinstance(value, list | dict | tuple):
        raise BadTemplate("a list or an object needs tojson: {{ value | tojson }}")
    return Markup(json.dumps(value))


def _to_json(value: Any) -> Markup:
    """Without an indent, which makes much of nothing."""
    return htmlsafe_json_dumps(value, sort_keys=False)


class _Ranges:
    """`range` for one body: what all of them count together is bounded, since loops may stand in loops."""

    def __init__(self) -> None:
        self._num = 0

    def __call__(self, *numbers: int) -> Iterator[int]:
        for number in range(*numbers):
            self._num += 1
            if self._num > _MAX_RANGES:
                raise BadTemplate(f"its ranges count further than {_MAX_RANGES}")
            yield number


def _no_number(name: str) -> None:
    raise BadTemplate(f"it gives {name}, which is no number of JSON")


def _capped(pieces: Iterator[str]) -> Iterator[str]:
    num_chars = 0
    for piece in pieces:
        num_chars += len(piece)
        if num_chars > MAX_BODY_CHARS:
            raise BadTemplate(f"it gives more than {MAX_BODY_CHARS >> 20} MiB")
        yield piece


def _sentence(error: Exception) -> str:
    line = getattr(error, "lineno", None)
    place = f" (line {line})" if isinstance(line, int) else ""
    return f"{str(error).rstrip('.')[:200] or type(error).__name__}{place}"
