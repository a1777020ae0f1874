"""Fields of a YAML file that may be anything: each is what it has to be, or a sentence names its line and itself; all
that is wrong is told together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final, TypeVar

import yaml
from kvxray_engine.errors import UserError

from kvxray_backend.observed.plain_data import read_plain
from kvxray_backend.quantities import parse_age

MAX_TEXT: Final = 1_000
MAX_FAULTS: Final = 10
"""So many are told; the others are counted."""
T = TypeVar("T")
# The one that `read_plain` reads with: the two do not take all the same texts.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Faulty(UserError):
    """faults: what is wrong, each the line and its sentence."""

    def __init__(self, faults: Iterable[tuple[int, str]]) -> None:
        self.faults = sorted(faults, key=lambda fault: fault[0])
        told = [f"line {line}, {sentence}." for line, sentence in self.faults[:MAX_FAULTS]]
        left = len(self.faults) - len(told)
        super().__init__(
            " ".join([*told[:1], *(f"L{one[1:]}" for one in told[1:]), *([f"And {left} more."] if left else [])])
        )


@dataclass(frozen=True, slots=True)
class Field:
    """A value in the file, and what leads to it: `HostTierFull, when 1`."""

    node: Any
    path: str

    def error(self, sentence: str) -> Faulty:
        return Faulty([(self.node.start_mark.line + 1, f"{self.path or 'at the top'}: {sentence}")])

    def fields(self, known: Collection[str], needed: Collection[str] = ()) -> dict[str, Field]:
        """Of a mapping, by name."""
        found, faulty = self.those(known, needed)
        if faulty is not None:
            raise faulty
        return found

    def those(self, known: Collection[str], needed: Collection[str] = ()) -> tuple[dict[str, Field], Faulty | None]:
        """Likewise; and what is wrong with their names, so that what else is wrong may be told with it."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("it is no list of names and values")
        found, faults = dict[str, Field](), list[tuple[int, str]]()
        for key, value in self.node.value:
            name = str(key.value)
            if name in known:
                found[name] = Field(value, self._below(name))
            else:
                odd = Field(key, self._below(name[:80]))
                faults += odd.error(f"there is no such field{near(name, known)}").faults
        faults += [fault for name in needed if name not in found for fault in self.error(f"it lacks {name}").faults]
        return found, Faulty(faults) if faults else None

    def items(self, most: int) -> list[Field]:
        """Of a list that has something in it."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error("it is no list")
        if not 1 <= len(self.node.value) <= most:
            raise self.error(f"it has {len(self.node.value):,} entries; there may be 1 to {most:,}")
        return [Field(one, f"{self.path} {number}") for number, one in enumerate(self.node.value, 1)]

    def text(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            raise self.error("it is no text")
        told = " ".join(self.node.value.split())
        if len(told) > MAX_TEXT or not told.isprintable():
            raise self.error(f"it is not up to {MAX_TEXT:,} plain characters")
        return told

    def one_of(self, known: Collection[str]) -> str:
        told = self.text()
        if told not in known:
            raise self.error(f"there is no {told[:80]!r}{near(told, known)}")
        return told

    def number(self) -> float:
        try:
            value = float(self.text())
        except ValueError as error:
            raise self.error(f"{self.text()[:80]!r} is no number") from error
        if not isfinite(value):
            raise self.error("it is no number that can be reached")
        return value

    def seconds(self, least: int, most: int) -> int:
        told = self.text()
        try:
            value = 0 if told in ("0", "0s") else parse_age(int(told) if told.isascii() and told.isdecimal() else told)
        except ValueError as error:
            raise self.error(f"{told[:80]!r} is no time such as 30s, 10m or 1h") from error
        if value is None or not least <= value <= most:
            raise self.error(f"{told[:80]!r} is not from {least:,} to {most:,} seconds")
        return value

    def _below(self, name: str) -> str:
        return f"{self.path}, {name}" if self.path else name


def each(makes: Iterable[Callable[[], T]], *, beside: Faulty | None = None) -> list[T]:
    """All of them. Raises `Faulty` with all that any of them raises, and `beside`."""
    made, faults = list[T](), [*beside.faults] if beside is not None else []
    for make in makes:
        try:
            made.append(make())
        except Faulty as error:
            faults += error.faults
    if faults:
        raise Faulty(faults)
    return made


def read_fields(text: bytes) -> Field | None:
    """None: there is nothing in it. Raises `UserError` for what is no YAML, or would not be bounded."""
    if read_plain(text, "rules.yaml") is None:
        return None
    return Field(yaml.compose(text.decode("utf-8-sig"), Loader=_LOADER), "")


def near(name: str, known: Collection[str]) -> str:
    """What was meant, where that can be guessed; else what there is, where that is little."""
    close = get_close_matches(name, [*known], 1)
    if close:
        return f"; did you mean {close[0]}"
    return f"; there is {', '.join(known)}" if len(known) <= 12 else ""


def by_name(fields: Mapping[str, Field], name: str, among: Collection[str], default: str) -> str:
    return fields[name].one_of(among) if name in fields else default
