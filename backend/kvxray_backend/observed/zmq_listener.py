"""Listens to an engine over ZeroMQ: ordered steps of all its ranks, taken under the engine's lock in short turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kvxray_engine.errors import UserError

from kvxray_backend.observed.engine_findings import Unreadable
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign.batch_steps import Step
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.ordered_stream import Delivery, OrderedStream, Origin
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

STEPS_A_TURN: Final = 32
"""Taken under the lock at once: who reads waits for no more than these."""

Steps = Sequence[tuple[Origin, Step[Delivery]]]


class ZmqListener:
    """From its making to `close`."""

    def __init__(
        self,
        spec: ObserveSpec,
        chains: TokenChains,
        turns: ReplayTurns,
        take: Callable[[Steps], object],
        advance: Callable[[], object],
        let_go: Callable[[], object],
    ) -> None:
        """take: gets the steps, few at a time. advance: called in every turn, whether something came or not. let_go:
        called in the end. Raises `UserError` for an endpoint that cannot be.
        """
        self._take = take
        self._advance = advance
        self._let_go = let_go
        self._stream = ZmqStream(lines_of(spec), topic_prefix=spec.topic.encode())
        self._ordered = OrderedStream(self._stream, partial(decode_batch, chains=chains), turns)
        self._stream.start()

    @property
    def unreadable(self) -> Unreadable:
        """Messages that were no batches, or nobody's; those of one rank are among what its source tells."""
        malformed, num_unplaced = dict(self._stream.malformed), self._ordered.num_unplaced
        reason = max(malformed, key=malformed.__getitem__) if malformed else "No decoder understands the payload."
        num_refused = self._stream.num_refused + self._ordered.num_refused
        if num_refused and not malformed and not num_unplaced:
            reason = "There are more publishers and ranks than are told apart."
        return Unreadable(sum(malformed.values()) + num_unplaced + num_refused, reason)

    def turn(self, wait_s: float) -> None:
        self._hand_on(self._ordered.next_steps(wait_s))
        self._advance()

    def close(self) -> None:
        try:
            self._hand_on(self._ordered.finish())
        finally:
            self._stream.close()
            self._let_go()

    def _hand_on(self, steps: Steps) -> None:
        for at in range(0, len(steps), STEPS_A_TURN):
            self._take(steps[at : at + STEPS_A_TURN])


def lines_of(spec: ObserveSpec) -> list[tuple[Endpoint, Endpoint | None]]:
    """Where each rank's events are, and where replay is asked for. Raises `UserError`."""
    if spec.events is None:
        raise UserError(f"The engine {spec.name!r} has no address of events.")
    events = of_ranks(parse_endpoint(spec.events, bind=spec.bind), spec.ranks)
    replays: list[Endpoint | None] = [None] * spec.ranks
    if spec.replay is not None:
        replays = [*of_ranks(parse_endpoint(spec.replay), spec.ranks)]
    return list(zip(events, replays, strict=True))
