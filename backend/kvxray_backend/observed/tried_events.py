"""Listens to an engine's events for a few seconds, over sockets of its own, and says what was heard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from kvxray_engine.errors import UserError

from kvxray_backend.attach_types import EventsFound, GroupFound
from kvxray_backend.inspection.dialect import msgpack_dialect
from kvxray_backend.observed import trial_listener
from kvxray_backend.observed.reaching import why_not_reached
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.spec_checks import is_http, is_socket
from kvxray_backend.observed.trial_listener import TrialListener
from kvxray_backend.quantities import counted
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.heard_tally import batches
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

MAX_RANKS_TRIED: Final = 16
MAX_FINDINGS: Final = 20


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
        listener = TrialListener(stream, len(lines), has_replay=spec.replay is not None)
        listener.run()
        return _told(listener, stream, lines)
    finally:
        stream.close()


def _told(listener: TrialListener, stream: ZmqStream, lines: list[tuple[Endpoint, Endpoint | None]]) -> HeardEvents:
    if not listener.num_read:
        return HeardEvents(_not_heard(listener, stream, lines[0][0]))
    descriptors = [source.fold.descriptor for source in listener.session.sources]
    groups = [group for one in descriptors for group in one.groups if group.kind]
    sizes = {size for one in descriptors for size in one.block_sizes if size}
    found = EventsFound(
        state="heard",
        sentence=_sentence(listener, len(lines)),
        batches=listener.num_heard or listener.num_repeated,
        dialect=msgpack_dialect(frozenset(listener.encodings)),
        ranks=sorted(listener.ranks),
        groups=_once(GroupFound(kind=group.kind, window=group.window or None) for group in groups),
        media=list(dict.fromkeys(pool.name for one in descriptors for pool in one.pools)),
        block_size=sizes.pop() if len(sizes) == 1 else None,
        replay=listener.replay,
    )
    return HeardEvents(found, [group.kind for group in groups], listener.is_whole, _findings(listener, stream))


def _not_heard(listener: TrialListener, stream: ZmqStream, events: Endpoint) -> EventsFound:
    waited = f"within {trial_listener.LISTEN_S:g} s"
    if any(listener.connections):
        idle = "an idle engine is silent; send it a request to see more."
        return EventsFound(
            state="silent", sentence=f"Connected, and nothing was told {waited}: {idle}", replay=listener.replay
        )
    if events.is_bound:
        where = stream.addresses[0]
        sentence = f"Nothing dialled in at {where} {waited}: the engine's endpoint must name this machine."
        return EventsFound(state="silent", sentence=sentence, replay=listener.replay)
    return EventsFound(state="refused", sentence=why_not_reached(events.address), replay=listener.replay)


def _sentence(listener: TrialListener, num_lines: int) -> str:
    spoke = len({publisher.line for publisher in listener.first})
    of = f" of {spoke} of {num_lines} ranks" if num_lines > 1 else ""
    if not listener.num_heard:
        return f"Idle just now; by replay it told {batches(listener.num_repeated)}{of} of its past."
    return f"Heard {batches(listener.num_heard)}{of} in {listener.took_s:.1f} s."


def _findings(listener: TrialListener, stream: ZmqStream) -> list[str]:
    found = [finding.sentence for finding in listener.session.findings() if finding.kind in _WORTH_TELLING]
    malformed = sum(stream.malformed.values())
    if malformed:
        found.append(f"{counted(malformed, 'message')} of the socket are none that an engine sends.")
    return list(dict.fromkeys(found))[:MAX_FINDINGS]


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


def _once(groups: Iterable[GroupFound]) -> list[GroupFound]:
    return list({(group.kind, group.window): group for group in groups}.values())
