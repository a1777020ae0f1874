"""A viewer as the page is one: reads frames by the contract alone, knowing nothing of the code that wrote them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from kvxray_backend.live_state import LiveState

HEADER = struct.Struct("<4sBBHIIdddIiIIQ")


class MustFetch(Exception):
    """The delta does not follow what the viewer has: it needs the snapshot."""


@dataclass
class Frame:
    type: int
    epoch: int
    num_blocks: int
    seq_from: float
    seq_to: float
    ids: np.ndarray
    columns: list[np.ndarray]


def read_frame(data: bytes) -> Frame:
    magic, version, type_, zero, epoch, num_blocks, seq_from, seq_to, _, count, _, _, _, _ = HEADER.unpack(data[:64])
    assert (magic, version, zero) == (b"KVXB", 1, 0)
    offset = 64
    ids = np.arange(num_blocks, dtype=np.uint32)
    if type_ == 2:
        ids = np.frombuffer(data, "<u4", count, offset)
        offset += 4 * count
    columns = [np.frombuffer(data, np.uint8, count, offset + count * at) for at in range(4)]
    assert len(data) == offset + 4 * count
    return Frame(type_, epoch, num_blocks, seq_from, seq_to, ids, columns)


class Picture:
    """What a viewer has on its canvas."""

    def __init__(self) -> None:
        self.epoch = -1
        self.seq = -1.0
        self.columns: list[np.ndarray] = []

    def load(self, frame: Frame) -> None:
        assert frame.type == 1
        self.epoch, self.seq = frame.epoch, frame.seq_to
        self.columns = [column.copy() for column in frame.columns]

    def apply(self, frame: Frame) -> None:
        assert frame.type == 2
        if frame.epoch != self.epoch or frame.seq_from > self.seq or frame.num_blocks != len(self.columns[0]):
            raise MustFetch
        if frame.seq_to <= self.seq:
            return
        for mine, theirs in zip(self.columns, frame.columns, strict=True):
            mine[frame.ids] = theirs
        self.seq = frame.seq_to


class Viewer(Picture):
    """Watches a live state without a server between."""

    def __init__(self, live: LiveState) -> None:
        super().__init__()
        self._live = live
        self.last_seq = live.start_watching()
        self.fetch()

    state = property(lambda self: self.columns[0])
    ref = property(lambda self: self.columns[1])
    fill = property(lambda self: self.columns[2])
    flags = property(lambda self: self.columns[3])

    def fetch(self) -> None:
        made = self._live.snapshot_frame()
        assert made is not None
        self.load(read_frame(made[1]))

    def update(self) -> None:
        made = self._live.delta_frame(self.epoch, self.last_seq)
        if made is not None:
            self.last_seq = made[0]
            self.apply(read_frame(made[1]))

    def assert_shows(self, live: LiveState) -> None:
        shown = Picture()
        made = live.snapshot_frame()
        assert made is not None
        shown.load(read_frame(made[1]))
        assert live.block_map is not None
        assert (self.state == live.block_map.state).all()
        for mine, theirs in zip(self.columns, shown.columns, strict=True):
            assert (mine == theirs).all()
