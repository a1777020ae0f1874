"""A `.kvx` file as sections, and sections as a file.

    "KVXF" | u1 version | 3 zero bytes | sections
    section: u1 what | u4 length | u4 CRC-32 of `what` and the msgpack | msgpack

The last section tells how many there were, so that a file that ends early is noticed. Numbers are little endian. What
the sections mean stands in `records.py`. A file comes from outside: no length is believed that the file does not have.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec

from kvxray_storage.exchange.records import MOST_BYTES, SECTIONS, BadFile, Bounds, End, Section

VERSION: Final = 1
_MAGIC: Final = b"KVXF"
_PREFIX: Final = struct.Struct("<4sB3x")
_SECTION: Final = struct.Struct("<BII")
_NUMBER_OF: Final = {kind: number for number, kind in SECTIONS.items()}
_DECODERS: Final = {number: msgspec.msgpack.Decoder(kind) for number, kind in SECTIONS.items()}


class KvxWriter:
    """Writes to a file beside `path`, which takes its place only when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._file: BinaryIO = self._part.open("wb")
        self._file.write(_PREFIX.pack(_MAGIC, VERSION))
        self._count = 0

    def write(self, section: Section) -> None:
        data = msgspec.msgpack.encode(section)
        number = _NUMBER_OF[type(section)]
        self._file.write(_SECTION.pack(number, len(data), _crc(number, data)))
        self._file.write(data)
        self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.write(End(self._count))
            self._file.close()
            if kind is None:
                self._part.replace(self._path)
        finally:
            self._file.close()
            self._part.unlink(missing_ok=True)


def read_sections(path: Path) -> Iterator[Section]:
    """All sections of a file, in order, the last (`End`) left out. Raises BadFile with one sentence, and OSError."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise BadFile("it is a device or a pipe, and kvxray reads it twice")
    with path.open("rb") as file:
        _check_prefix(file.read(_PREFIX.size))
        count = 0
        while True:
            section = _read_section(file, status.st_size)
            if isinstance(section, End):
                break
            count += 1
            yield section
        if section.sections != count or file.read(1):
            raise BadFile("its end does not fit what comes before")


def _check_prefix(prefix: bytes) -> None:
    if len(prefix) < _PREFIX.size or prefix[:4] != _MAGIC:
        raise BadFile("it does not begin like a file of kvxray's")
    version = prefix[4]
    if version != VERSION:
        raise BadFile(f"it is of version {version}, and this kvxray reads {VERSION}")
    if prefix[5:] != b"\0\0\0":
        raise BadFile("it does not begin like a file of kvxray's")


def _read_section(file: BinaryIO, size: int) -> Section:
    head = file.read(_SECTION.size)
    if len(head) < _SECTION.size:
        raise BadFile("it ends early")
    number, length, crc = _SECTION.unpack(head)
    if number not in SECTIONS:
        raise BadFile(f"it has a part of the unknown kind {number}")
    if length > size - file.tell():
        raise BadFile("it ends early")
    if length > MOST_BYTES.get(SECTIONS[number], Bounds.section):
        raise BadFile("a part of it is longer than kvxray reads at once")
    data = file.read(length)
    if len(data) != length:
        raise BadFile("it ends early")
    if _crc(number, data) != crc:
        raise BadFile("a part of it is not what was written")
    try:
        section: Section = _DECODERS[number].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
        raise BadFile(f"a part of it cannot be read ({str(error)[:100]})") from error
    return section


def _crc(number: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(bytes([number])))
