"""Listens to an engine over ZeroMQ: ordered steps of all its ranks, taken under the engine's lock in short turns."""

from __future__ import annotations

from functools import partial

from kvxray_engine.errors import UserError

from kvxray_backend.observed.engine_findings import Unreadable
from kvxray_backend.observed.listener import Consumer
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.ordered_stream import OrderedStream
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream


class ZmqListener:
    """From its making to `close`."""

    def __init__(self, spec: ObserveSpec, chains: TokenChains, turns: ReplayTurns, consumer: Consumer) -> None:
        """Raises `UserError` for an endpoint that cannot be."""
        self._consumer = consumer
        self._stream = ZmqStream(lines_of(spec), topic_prefix=spec.topic.encode())
        self._ordered = OrderedStream(self._stream, partial(decode_batch, chains=chains), turns, asks_at_once=True)
        self._stream.start()

    @property
    def trouble(self) -> str:
        connections, addresses = self._stream.num_connections, self._stream.addresses
        silent = [address for address, num in zip(addresses, connections, strict=True) if num == 0]
        if not silent:
            return ""
        others = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return f"There is no connection at {silent[0]}{others}."

    @property
    def unreadable(self) -> Unreadable:
        """Messages that were no batches, or nobody's; those of one rank are among what its source tells."""
        malformed, num_unplaced = dict(self._stream.malformed), self._ordered.num_unplaced
        reason = max(malformed, key=malformed.__getitem__) if malformed else "No decoder understands the payload."
        num_refused = self._stream.num_refused + self._ordered.num_refused
        if num_refused and not malformed and not num_unplaced:
            reason = "There are more publishers and ranks than are told apart."
        return Unreadable(sum(malformed.values()) + num_unplaced + num_refused, reason)

    @property
    def is_behind(self) -> bool:
        return self._ordered.is_behind

    @property
    def num_dropped(self) -> int:
        return self._stream.num_dropped

    def turn(self, wait_s: float) -> None:
        self._consumer.take_in_turns(self._ordered.next_steps(wait_s))
        self._consumer.advance()

    def wake(self) -> None:
        self._stream.interrupt()

    def close(self) -> None:
        try:
            self._consumer.take_in_turns(self._ordered.finish())
        finally:
            self._stream.close()
            self._consumer.let_go()


def lines_of(spec: ObserveSpec) -> list[tuple[Endpoint, Endpoint | None]]:
    """Where each rank's events are, and where replay is asked for. Raises `UserError`."""
    if spec.events is None:
        raise UserError(f"The engine {spec.name!r} has no address of events.")
    events = of_ranks(parse_endpoint(spec.events, bind=spec.bind), spec.ranks)
    replays: list[Endpoint | None] = [None] * spec.ranks
    if spec.replay is not None:
        replays = [*of_ranks(parse_endpoint(spec.replay), spec.ranks)]
    return list(zip(events, replays, strict=True))
