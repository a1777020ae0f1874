"""One epoch of a file, folded: what contradicts itself is refused before anything is stored."""

from __future__ import annotations

from kvxray_engine.stream.codec import BadMessage, Message

from kvxray_storage.exchange.items import Framed, Item, Told
from kvxray_storage.exchange.records import BadFile, EpochHead, Hole
from kvxray_storage.state_kinds import RESIDENCY, EitherState, kind_of, lose_track, read_descriptor


class EpochCheck:
    """`_state`: what the file has told so far, None before the epoch's first frame. `_has_hole`: messages are missing
    since it was certain, perhaps one that changed what the source is.
    """

    def __init__(self, head: EpochHead) -> None:
        self._head = head
        self._state: EitherState | None = None
        self._has_hole = False

    def take(self, item: Item) -> None:
        """Raises BadFile."""
        if isinstance(item, Framed):
            self._go_on_from(item.state)
        elif isinstance(item, Told):
            for message in item.messages:
                self._apply(message)
        elif isinstance(item, Hole):
            self._check_hole(item)

    def _go_on_from(self, told: EitherState) -> None:
        head, state = self._head, self._state
        if (told.source, told.incarnation) != (head.source, head.incarnation):
            raise BadFile("a state in it is not of its epoch")
        if state is None:
            if told.descriptor != read_descriptor(head.descriptor.encode()):
                raise BadFile("an epoch in it does not begin with the source that it says")
        elif told.next_wire_seq < state.next_wire_seq:
            raise BadFile("its parts are out of order")
        elif kind_of(told) != kind_of(state):
            raise BadFile("an epoch in it tells of blocks and of hashes")
        elif told.next_wire_seq == state.next_wire_seq and not self._has_hole and not _is_same_source(told, state):
            raise BadFile("a state in it is of another source than the events before it")
        self._state, self._has_hole = told, False

    def _check_hole(self, hole: Hole) -> None:
        ends_early = hole.seq1 is not None and hole.seq1 < hole.seq0 - 1
        if self._state is None or hole.wire_seq1 < hole.wire_seq0 or ends_early:
            raise BadFile("a gap in it has no place")
        self._has_hole = True

    def _apply(self, message: Message) -> None:
        state, header = self._state, message.header
        if state is None:
            raise BadFile("an epoch in it does not begin with a state")
        if header.wire_seq < state.next_wire_seq or header.seq0 < state.next_seq:
            raise BadFile("its messages are out of order")
        if header.wire_seq > state.next_wire_seq:
            lose_track(state)
            self._has_hole = True
        try:
            state.apply(message)
        except BadMessage as error:
            raise BadFile(f"an event in it contradicts what comes before ({str(error).rstrip('.')})") from error


def _is_same_source(told: EitherState, state: EitherState) -> bool:
    mine, theirs = told.descriptor, state.descriptor
    if kind_of(state) == RESIDENCY:
        return mine == theirs
    return (mine.num_blocks, mine.block_size, mine.null_block) == (
        theirs.num_blocks, theirs.block_size, theirs.null_block,
    )  # fmt: skip
