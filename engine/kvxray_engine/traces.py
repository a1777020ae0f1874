"""Traces of real traffic: when requests came, how long they were, and which beginnings they share. Reads, runs nothing.

Three formats, told apart by their first line, gzipped or not:
- Mooncake (JSON lines): `timestamp` in ms, `input_length`, `output_length`, `hash_ids`: one for each 512 tokens, equal
  where whole prefixes are equal;
- Azure LLM inference (CSV): `TIMESTAMP,ContextTokens,GeneratedTokens`; nothing is known to be shared;
- our own (JSON lines): `arrival_s`, `prompt` as a list of `[name, tokens]` (equal names, equal text), `output_tokens`.

No trace has tokens. A prompt becomes tokens by repeating, for each segment, one number: prompts then share as many
tokens as the trace says they do, in blocks of any size.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kvxray_engine.errors import UserError

MOONCAKE_BLOCK: Final = 512
"""Tokens."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """`segments`: (number of the text, tokens) in the order of the prompt; every prompt has at least one token."""

    arrival_ns: int  # since the trace began
    segments: tuple[tuple[int, int], ...]
    output_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return sum(tokens for _, tokens in self.segments)

    def prompt_token_ids(self) -> list[int]:
        token_ids: list[int] = []
        for number, tokens in self.segments:
            token_ids += [number] * tokens
        return token_ids


def read_trace(path: Path, limit: int | None = None) -> list[TraceRequest]:
    """The first `limit` requests, in the order of their arrival. Raises UserError when the file is not a trace."""
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            first = next(file, "")
            parse = _parser(first)
            if parse is None:
                raise UserError(f"{path} is no trace: its first line is neither Mooncake's, nor Azure's, nor ours.")
            lines = itertools.chain([first], file)
            trace = list(itertools.islice(_read(path, parse, lines), limit))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"The trace {path} cannot be read: {error}.") from error
    return sorted(trace, key=lambda request: request.arrival_ns)


Parse = Callable[[Iterator[str]], Iterator[TraceRequest]]


def _read(path: Path, parse: Parse, lines: Iterator[str]) -> Iterator[TraceRequest]:
    number = 0

    def counted() -> Iterator[str]:
        nonlocal number
        for line in lines:
            number += 1
            yield line

    try:
        for request in parse(counted()):
            if (
                request.arrival_ns < 0
                or request.output_tokens < 1
                or min((n for _, n in request.segments), default=0) < 1
            ):
                raise ValueError("a time or a length is below what can be")
            yield request
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UserError(f"Line {number} of the trace {path} cannot be read: {reason}.") from error


def _parser(first: str) -> Parse | None:
    if first.startswith("TIMESTAMP,"):
        return _azure
    try:
        record = json.loads(first)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    return _mooncake if "hash_ids" in record else _own if "prompt" in record else None


def _mooncake(lines: Iterator[str]) -> Iterator[TraceRequest]:
    for record in map(json.loads, lines):
        ids, length = record["hash_ids"], int(record["input_length"])
        if len(ids) != -(-length // MOONCAKE_BLOCK):
            raise ValueError(f"{length} tokens are not {len(ids)} blocks of {MOONCAKE_BLOCK}")
        rest = length - (len(ids) - 1) * MOONCAKE_BLOCK
        segments = tuple((int(one), MOONCAKE_BLOCK) for one in ids[:-1])
        arrival_ns = int(record["timestamp"]) * 1_000_000
        yield TraceRequest(arrival_ns, (*segments, (int(ids[-1]), rest)), int(record["output_length"]))


def _azure(lines: Iterator[str]) -> Iterator[TraceRequest]:
    begun: datetime | None = None
    for number, row in enumerate(csv.DictReader(lines)):
        came = datetime.fromisoformat(row["TIMESTAMP"])
        begun = begun or came
        since = came - begun
        arrival_ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
        yield TraceRequest(arrival_ns, ((number, int(row["ContextTokens"])),), int(row["GeneratedTokens"]))


def _own(lines: Iterator[str]) -> Iterator[TraceRequest]:
    numbers: dict[Any, int] = {}
    for record in map(json.loads, lines):
        segments = tuple((numbers.setdefault(name, len(numbers)), int(tokens)) for name, tokens in record["prompt"])
        yield TraceRequest(round(record["arrival_s"] * 1e9), segments, int(record["output_tokens"]))
