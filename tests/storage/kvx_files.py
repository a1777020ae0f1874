"""`.kvx` files as tests make, read and spoil them."""

from __future__ import annotations

import zlib

import msgspec
import zstandard
from kvxray_engine.stream import snapshot
from kvxray_storage import history
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange import container
from kvxray_storage.exchange.kvx_check import check_file
from kvxray_storage.exchange.kvx_import import Importer
from kvxray_storage.exchange.records import BadFile
from kvxray_storage.exchange.stretch import Stretch

NOW_NS = 1_800_000_000_000_000_000


def any_finding(finding):
    """Nothing more is asked of it here."""


def stretch_of(database, key, first=0, last=2**62, source="engine"):
    [epoch] = [row for row in history.epochs(database, source) if row.key == key]
    return Stretch(source, epoch, first, last)


def import_into(database, path, name="engine", **log):
    with EventLog(database, **log) as opened:
        return Importer(database, opened, path, NOW_NS, lambda _: name, any_finding).run()


def refused_or_read(path):
    """Either one sentence, or a file that can be stored."""
    try:
        return check_file(path, any_finding)
    except BadFile as refusal:
        text = str(refusal)
        assert text
        assert "\n" not in text
        assert not text.endswith(".")
        return None


def sections_of(path):
    """[(number, msgpack bytes)] of a file."""
    data, at, found = path.read_bytes(), 8, []
    while at < len(data):
        number, length, _ = container._SECTION.unpack_from(data, at)
        at += container._SECTION.size
        found.append((number, data[at : at + length]))
        at += length
    return found


def write_sections(path, sections):
    """With sums that are right, as somebody with bad intentions would."""
    parts = [b"KVXF\x01\0\0\0"]
    for number, data in sections:
        crc = zlib.crc32(data, zlib.crc32(bytes([number])))
        parts += [container._SECTION.pack(number, len(data), crc), data]
    path.write_bytes(b"".join(parts))


def inside(path, number, change):
    """The file's sections with what is packed in each of this kind changed, and sums that are right."""
    sections = []
    for kind, data in sections_of(path):
        if kind == number:
            value = msgspec.msgpack.decode(data)
            change(value)
            data = msgspec.msgpack.encode(value)
        sections.append((kind, data))
    return sections


def changed_messages(change):
    def repack(value):
        raw = bytearray(zstandard.ZstdDecompressor().decompress(value[0]))
        change(raw)
        value[0] = zstandard.ZstdCompressor().compress(bytes(raw))

    return repack


def changed_columns(change):
    """Of a snapshot, with a sum that is right too."""

    def repack(value):
        state = value[3]
        magic, version, head_size, columns_size = snapshot._PREFIX.unpack_from(state)
        begin = snapshot._PREFIX.size + 4
        head, columns, rest = (
            state[begin : begin + head_size],
            bytearray(zstandard.ZstdDecompressor().decompress(state[begin + head_size :][:columns_size])),
            state[begin + head_size + columns_size :],
        )
        change(columns)
        packed = zstandard.ZstdCompressor().compress(bytes(columns))
        prefix = snapshot._PREFIX.pack(magic, version, head_size, len(packed))
        value[3] = snapshot.sealed(prefix, head + packed + rest)

    return repack


def repacked_head(change):
    """Of a snapshot."""

    def repack(value):
        state = value[3]
        magic, version, head_size, columns_size = snapshot._PREFIX.unpack_from(state)
        begin = snapshot._PREFIX.size + 4
        head = bytearray(zstandard.ZstdDecompressor().decompress(state[begin : begin + head_size]))
        change(head)
        packed = zstandard.ZstdCompressor().compress(bytes(head))
        prefix = snapshot._PREFIX.pack(magic, version, len(packed), columns_size)
        value[3] = snapshot.sealed(prefix, packed + state[begin + head_size :])

    return repack
