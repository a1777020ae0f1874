"""What the sections of a `.kvx` file say. Only shapes and bounds; msgspec holds what is read to them.

In a file: `FileHead`, then for each epoch an `EpochHead` with its `Frame`s, `Messages` and `Hole`s in the order of
their messages (the first a `Frame` with the bytes of its hashes: the state before the first message) and its
`Rollups`, then `Findings` and `Bookmarks`. Secrets are digested already, as in the event log.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from kvxray_engine.stream.codec import MAX_PAYLOAD_BYTES
from kvxray_engine.stream.snapshot import MAX_SNAPSHOT_BYTES

from kvxray_storage.rollup_columns import VALUE_COLUMNS


class BadFile(ValueError):
    """No `.kvx` file, or a damaged one; the text ends the sentence `NAME cannot be imported: …`."""


class Bounds:
    """Of what a file may claim: what is read at once fits the memory that whoever reads it has."""

    section: Final = 1 << 24
    """Bytes of a section; of some kinds others (`MOST_BYTES`)."""
    unpacked: Final = MAX_PAYLOAD_BYTES + (1 << 24)
    """Bytes of the messages of a section: the longest that there is, and those before it."""
    messages: Final = 16_384
    name: Final = 512
    text: Final = 65_536
    subjects: Final = 1 << 20
    note: Final = 500
    items: Final = 10_000


Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Place = Annotated[int, msgspec.Meta(ge=-1, le=2**62)]
EpochNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Second = Annotated[int, msgspec.Meta(ge=0, le=2**62 // 10**9)]
# Databases take no NUL, and a name with control characters could write over what a terminal shows.
_NO_NUL: Final = r"^[^\x00]*\Z"
_NO_CONTROLS: Final = r"^[^\x00-\x1f\x7f-\x9f]*\Z"
Text = Annotated[str, msgspec.Meta(max_length=Bounds.text, pattern=_NO_NUL)]
Subjects = Annotated[str, msgspec.Meta(max_length=Bounds.subjects, pattern=_NO_NUL)]
Note = Annotated[str, msgspec.Meta(max_length=Bounds.note, pattern=_NO_NUL)]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=Bounds.name, pattern=_NO_CONTROLS)]
BookmarkId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Values = Annotated[list[int | bytes | None], msgspec.Meta(max_length=len(VALUE_COLUMNS))]


class Part(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A section, or an item of one."""


class FileHead(Part):
    """When it was written, and by which kvxray."""

    created_ns: Number
    kvxray: Id


class EpochHead(Part):
    """What follows, up to the next one, is of this epoch. `descriptor`: what its source was where it begins, JSON."""

    source: Id
    labels: Annotated[dict[Id, Text], msgspec.Meta(max_length=Bounds.name)]
    epoch: EpochNumber
    incarnation: Annotated[str, msgspec.Meta(max_length=Bounds.name, pattern=_NO_NUL)]
    descriptor: Text
    started_ns: Number
    ended_ns: Number | None


class Frame(Part):
    """The state before event `seq` of message `wire_seq`, as `kvxray_engine.stream.snapshot` writes it."""

    seq: Number
    wire_seq: Number
    t_ns: Number
    state: bytes


class Messages(Part):
    """Messages that follow each other: zstd over a msgpack list of what `kvxray_engine.stream.codec` writes."""

    packed: bytes


class Hole(Part):
    """Messages and events that were not stored, both ends included; seq1 None: not known."""

    wire_seq0: Number
    wire_seq1: Number
    seq0: Number
    seq1: Place | None
    at_ns: Number
    reason: Text


class Rollups(Part):
    """Rows of `span` seconds: the second each begins with, then the columns of a rollup in the order they have."""

    span: int
    columns: Annotated[list[Id], msgspec.Meta(max_length=len(VALUE_COLUMNS))]
    rows: Annotated[list[tuple[Second, Values]], msgspec.Meta(max_length=Bounds.items)]


class StoredFinding(Part):
    """`subjects`, `numbers`: JSON."""

    id: Id
    kind: Id
    severity: Id
    source: Id
    epoch: EpochNumber
    seq0: Place
    seq1: Place
    at_ns: Number
    state: Id
    ended_ns: Number | None
    subjects: Subjects
    numbers: Text
    certainty: Id
    sentence: Text


class Findings(Part):
    rows: Annotated[list[StoredFinding], msgspec.Meta(max_length=Bounds.items)]


class StoredBookmark(Part):
    id: BookmarkId
    source: Id
    epoch: EpochNumber
    seq: Number
    at_ns: Number
    note: Note
    created_ns: Number


class Bookmarks(Part):
    rows: Annotated[list[StoredBookmark], msgspec.Meta(max_length=Bounds.items)]


class End(Part):
    """`sections`: how many came before."""

    sections: int


Section = FileHead | EpochHead | Frame | Messages | Hole | Rollups | Findings | Bookmarks | End
SECTIONS: Final[dict[int, type[Section]]] = {
    1: FileHead, 2: EpochHead, 3: Frame, 4: Messages, 5: Hole, 6: Rollups, 7: Findings, 8: Bookmarks, 255: End,
}  # fmt: skip
"""By the number in the file."""

MOST_BYTES: Final[dict[type[Section], int]] = {
    Frame: MAX_SNAPSHOT_BYTES + (1 << 16),
    Messages: Bounds.unpacked + (1 << 20),
    EpochHead: 1 << 18,
}
"""Where a section may have more than others."""
