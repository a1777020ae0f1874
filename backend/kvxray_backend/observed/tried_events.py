"""Listens to an engine's events for a few seconds, over sockets of its own, and says what was heard."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from kvxray_engine.errors import UserError

from kvxray_backend.attach_types import EventsFound, GroupFound
from kvxray_backend.inspection.dialect import Encoding, encodings_of, msgpack_dialect
from kvxray_backend.observed.reaching import why_not_reached
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.spec_checks import is_http, is_socket
from kvxray_backend.quantities import counted
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

LISTEN_S: Final = 4.5
GOES_ON_S: Final = 1.0
"""After the first batch: ranks and groups that speak seldom may follow."""
MAX_RANKS_TRIED: Final = 16
MAX_READ: Final = 500
# Nobody is there: the engine answers with the end of its answer alone, which costs it nothing.
_BEYOND: Final = (1 << 62) - 1


@dataclass(slots=True)
class HeardEvents:
    """`found`: what is told. `spec_kinds`: of groups. `is_whole`: it began with the engine's first batch. `findings`:
    sentences.
    """

    found: EventsFound
    spec_kinds: list[str] = field(default_factory=list)
    is_whole: bool = False
    findings: list[str] = field(default_factory=list)


def try_events(spec: ObserveSpec) -> HeardEvents:
    """Takes up to about five seconds. Never raises for what comes from outside."""
    if spec.events is None:
        return _none(spec)
    if is_http(spec.events):
        return _try_http(spec.events)
    if not is_socket(spec.events):
        return HeardEvents(EventsFound(state="none", sentence="A file is read when the engine is attached."))
    try:
        lines = _lines(spec, spec.events)
        stream = ZmqStream(lines, topic_prefix=spec.topic.encode())
    except UserError as error:
        return HeardEvents(EventsFound(state="refused", sentence=str(error)))
    try:
        stream.start()
        listening = _Listening(stream, has_replay=spec.replay is not None)
        listening.run()
        return listening.told(lines)
    finally:
        stream.close()


class _Listening:
    """One stream, listened to until enough was heard."""

    def __init__(self, stream: ZmqStream, *, has_replay: bool) -> None:
        self._stream = stream
        self._has_replay = has_replay
        self._answers = False
        self._session = OfflineSession(hold_for_replay=False)
        self._encodings: set[Encoding] = set()
        self._ranks: set[int] = set()
        self._num_batches = 0
        self._first_seqs: dict[Publisher, int] = {}
        self._began_s = time.monotonic()
        self._first_s: float | None = None
        self._connections: list[int] = []

    def run(self) -> None:
        if self._has_replay:
            self._stream.ask_replay(Publisher(0, b""), _BEYOND)
        while not self._has_enough(time.monotonic()):
            for item in self._stream.take(0.1):
                if isinstance(item, Heard):
                    self._hear(item)
                elif isinstance(item, ReplayEnded):
                    self._answers = True
        self._connections = self._stream.num_connections

    def told(self, lines: list[tuple[Endpoint, Endpoint | None]]) -> HeardEvents:
        if self._num_batches == 0:
            return HeardEvents(self._not_heard(lines))
        descriptors = [source.fold.descriptor for source in self._session.sources]
        groups = [group for one in descriptors for group in one.groups if group.kind]
        sizes = {size for one in descriptors for size in one.block_sizes if size}
        found = EventsFound(
            state="heard",
            sentence=self._sentence(len(lines)),
            batches=self._num_batches,
            dialect=msgpack_dialect(frozenset(self._encodings)),
            ranks=sorted(self._ranks),
            groups=_once(GroupFound(kind=group.kind, window=group.window or None) for group in groups),
            media=list(dict.fromkeys(pool.name for one in descriptors for pool in one.pools)),
            block_size=sizes.pop() if len(sizes) == 1 else None,
            replay=self._replay,
        )
        return HeardEvents(found, [group.kind for group in groups], self._is_whole, self._findings())

    @property
    def _replay(self) -> Literal["answers", "silent", "none"]:
        if not self._has_replay:
            return "none"
        return "answers" if self._answers else "silent"

    @property
    def _is_whole(self) -> bool:
        return bool(self._first_seqs) and not any(self._first_seqs.values())

    def _has_enough(self, now_s: float) -> bool:
        if now_s - self._began_s >= LISTEN_S:
            return True
        is_settled = self._answers or not self._has_replay
        return self._first_s is not None and now_s - self._first_s >= GOES_ON_S and is_settled

    def _hear(self, heard: Heard) -> None:
        self._first_s = self._first_s or time.monotonic()
        self._num_batches += 1
        self._first_seqs.setdefault(heard.publisher, heard.seq)
        if self._num_batches > MAX_READ:
            return
        self._encodings |= encodings_of(heard.payload)
        line = heard.publisher.line
        self._ranks.add(_rank_told(heard.payload, line))
        self._session.feed(f"rank {line}", heard.publisher.topic, heard.seq, heard.payload, heard.received_ns)

    def _not_heard(self, lines: list[tuple[Endpoint, Endpoint | None]]) -> EventsFound:
        waited = f"within {LISTEN_S:g} s"
        events = lines[0][0]
        if any(self._connections):
            sentence = (
                f"Connected, and nothing was told {waited}: an idle engine is silent; send it a request to see more."
            )
            return EventsFound(state="silent", sentence=sentence, replay=self._replay)
        if events.is_bound:
            where = self._stream.addresses[0]
            sentence = f"Nothing dialled in at {where} {waited}: the engine's endpoint must name this machine."
            return EventsFound(state="silent", sentence=sentence, replay=self._replay)
        return EventsFound(state="refused", sentence=why_not_reached(events.address), replay=self._replay)

    def _sentence(self, num_lines: int) -> str:
        spoke = len({publisher.line for publisher in self._first_seqs})
        of = f" of {spoke} of {num_lines} ranks" if num_lines > 1 else ""
        took = time.monotonic() - self._began_s
        return f"Heard {self._num_batches:,} {'batch' if self._num_batches == 1 else 'batches'}{of} in {took:.1f} s."

    def _findings(self) -> list[str]:
        found = [f"{finding.sentence}" for finding in self._session.findings() if finding.kind in _WORTH_TELLING]
        malformed = sum(self._stream.malformed.values())
        if malformed:
            found.append(f"{counted(malformed, 'message')} of the socket are none that an engine sends.")
        return list(dict.fromkeys(found))[:20]


_WORTH_TELLING: Final = ("unknown_or_partial_event", "hash_seed_mismatch")


def _lines(spec: ObserveSpec, events: str) -> list[tuple[Endpoint, Endpoint | None]]:
    num_ranks = min(spec.ranks, MAX_RANKS_TRIED)
    endpoints = of_ranks(parse_endpoint(events, bind=spec.bind), num_ranks)
    replays = of_ranks(parse_endpoint(spec.replay), num_ranks) if spec.replay is not None else [None] * num_ranks
    return list(zip(endpoints, replays, strict=True))


def _none(spec: ObserveSpec) -> HeardEvents:
    if spec.role == "decode":
        return HeardEvents(EventsFound(state="none", sentence="No events are expected: this engine only decodes."))
    return HeardEvents(
        EventsFound(state="none", sentence="No address of events was given: the engine is known by its metrics alone.")
    )


def _try_http(url: str) -> HeardEvents:
    """What is got there is taken from the engine's queue, and would be missing where it is watched already."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    reason = why_not_reached(f"tcp://{host}:{port}", is_any_server=True)
    if reason:
        return HeardEvents(EventsFound(state="refused", sentence=reason))
    sentence = "The server answers; its events are not taken by a test, since each of them can be had only once."
    return HeardEvents(EventsFound(state="silent", sentence=sentence))


def _rank_told(payload: bytes, line: int) -> int:
    """By the batch, else by the line that it came over."""
    try:
        rank = decode_batch(payload).rank
    except BadBatch:
        return line
    return line if rank is None else rank


def _once(groups: Iterable[GroupFound]) -> list[GroupFound]:
    return list({(group.kind, group.window): group for group in groups}.values())
