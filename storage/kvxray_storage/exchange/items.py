"""What the sections of a `.kvx` file hold, unpacked and checked one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
import zstandard
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message, decode
from kvxray_engine.stream.schema import Cause, Name

from kvxray_storage.exchange.container import read_sections
from kvxray_storage.exchange.records import (
    BadFile,
    Bookmarks,
    Bounds,
    EpochHead,
    FileHead,
    Findings,
    Frame,
    Hole,
    Messages,
    Rollups,
    Section,
)
from kvxray_storage.histograms import NUM_BUCKETS
from kvxray_storage.rollup_columns import COUNTERS, HISTOGRAMS, MAXIMA, VALUE_COLUMNS
from kvxray_storage.state_kinds import EitherState, load_told, read_descriptor

_PACKED: Final = msgspec.msgpack.Decoder(Annotated[list[bytes], msgspec.Meta(max_length=Bounds.messages)])
_CAUSES: Final = [int(cause) for cause in Cause]
LATEST_NS: Final = 2**62
_HISTOGRAM_BYTES: Final = 5 * NUM_BUCKETS


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Messages of a section, read."""

    messages: list[Message]


@dataclass(frozen=True, slots=True, eq=False)
class Framed:
    """A frame, with the state in it, read."""

    frame: Frame
    state: EitherState


Item = FileHead | EpochHead | Framed | Told | Hole | Rollups | Findings | Bookmarks


def read_items(path: Path) -> Iterator[Item]:
    """The sections of a file, what is packed in them unpacked and checked. Raises BadFile, and OSError."""
    head: EpochHead | None = None
    for section in read_sections(path):
        if isinstance(section, EpochHead):
            head = section
        elif head is None and not isinstance(section, FileHead):
            raise BadFile("something in it is of no epoch")
        try:
            yield _item(section, head)
        except BadFile:
            raise
        except (BadMessage, zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
            raise BadFile(f"a part of it cannot be read ({str(error)[:200].rstrip('.')})") from error


def _item(section: Section, head: EpochHead | None) -> Item:
    if isinstance(section, Messages):
        assert head is not None
        return Told(_unpack(section, head))
    if isinstance(section, EpochHead):
        read_descriptor(section.descriptor.encode())
    elif isinstance(section, Frame):
        return Framed(section, _state(section))
    elif isinstance(section, Rollups):
        _check_rollups(section)
    assert isinstance(section, Item)
    return section


def _unpack(section: Messages, head: EpochHead) -> list[Message]:
    if not 0 <= zstandard.frame_content_size(section.packed) <= Bounds.unpacked:
        raise BadFile("it claims more than kvxray reads at once")
    told = _PACKED.decode(zstandard.ZstdDecompressor().decompress(section.packed))
    messages = [decode(data) for data in told]
    for message in messages:
        header = message.header
        if header.type == "heartbeat" or (header.source, header.incarnation) != (head.source, head.incarnation):
            raise BadFile("a message in it is not of its epoch")
        if header.type == "descriptor" or header.descriptor:
            read_descriptor(header.descriptor)
        _check_names(header.names)
        if header.wire_seq < 0 or header.t0_wall_ns > LATEST_NS:
            raise BadFile("a message in it has no place or no time")
        if not np.isin(message.columns.cause, _CAUSES).all():
            raise BadFile("an event in it has an unknown cause")
    return messages


def _state(frame: Frame) -> EitherState:
    state = load_told(frame.state)
    if (state.next_seq, state.next_wire_seq) != (frame.seq, frame.wire_seq) or state.t_ns > LATEST_NS:
        raise BadFile("a state in it is of another moment than it says")
    _check_names((state.requests.names if isinstance(state, BlockMap) else state.names.names).values())
    return state


def _check_names(names: Iterable[Name]) -> None:
    """As strict as what comes from engines is taken."""
    for name in names:
        texts = (name.id, name.kind, name.tenant, name.session, name.lora, name.salt)
        if max(map(len, texts)) > Bounds.name or not 0 <= name.deadline < 2**63 or abs(name.parent) >= 2**63:
            raise BadFile("the name of a request in it is too long")


def _check_rollups(rollups: Rollups) -> None:
    if rollups.span not in (1, 60) or rollups.columns != list(VALUE_COLUMNS):
        raise BadFile("its rollups are not those that this kvxray keeps")
    for t_s, values in rollups.rows:
        if t_s % rollups.span or len(values) != len(VALUE_COLUMNS):
            raise BadFile("a rollup in it has no place")
        for name, value in zip(VALUE_COLUMNS, values, strict=True):
            _check_value(name, value)


def _check_value(name: str, value: int | bytes | None) -> None:
    if name in HISTOGRAMS:
        if not isinstance(value, bytes) or len(value) > _HISTOGRAM_BYTES:
            raise BadFile("a rollup in it is not counted")
    elif value is None:
        if name in (*COUNTERS, *MAXIMA):
            raise BadFile("a rollup in it is not counted")
    elif not isinstance(value, int) or not 0 <= value < 2**62:
        raise BadFile("a number of a rollup in it is out of range")
