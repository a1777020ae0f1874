"""Between the engine's thread and the API's event loop: requests in, their tokens out as they come.

The engine's thread calls `take` after each step; everything else runs in the event loop. An answer that is closed
before its end is aborted: its blocks are back within one step, since the engine empties its inbox as a step begins and
as it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.errors import UserError
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.step_batch import TokenLogprobs

MAX_OPEN_SEQUENCES = 1024
"""Sequences that may run and wait at once; more are turned away, so that a flood cannot fill the memory."""


class EngineBusy(Exception):
    """Too many wait already: one sentence for the client, who may try again later."""


@dataclass(frozen=True, slots=True)
class StepTokens:
    """What one step brought one sequence. `finish_reason` None while it goes on."""

    token_ids: Sequence[int]
    finish_reason: FinishReason | None = None
    logprobs: TokenLogprobs | None = None  # of the only token, where the request asked for them
    num_cached_tokens: int = 0  # of the prompt, found in the prefix cache when it was first admitted


class Answer:
    """The sequences of one client's request, as one stream of (index of the sequence, tokens)."""

    def __init__(self, owner: AsyncEngine, requests: Sequence[NewRequest]) -> None:
        self._owner = owner
        self._queue: asyncio.Queue[tuple[int, StepTokens]] = asyncio.Queue()
        self._open = {request.request_id: index for index, request in enumerate(requests)}
        self._request_ids = [request.request_id for request in requests]

    async def __aiter__(self) -> AsyncIterator[tuple[int, StepTokens]]:
        """Until every sequence has finished, or was finished by `finish`."""
        while self._open:
            index, tokens = await self._queue.get()
            if self._request_ids[index] not in self._open:
                continue  # came after its client had enough
            if tokens.finish_reason is not None:
                del self._open[self._request_ids[index]]
            yield index, tokens

    def finish(self, index: int) -> None:
        """Its client has all it wants of this sequence, such as up to a stop string."""
        self._release(self._request_ids[index], FinishReason.stop)

    def close(self) -> None:
        """The client is gone or has everything: what still runs is aborted."""
        for request_id in list(self._open):
            self._release(request_id, FinishReason.abort)

    def put(self, request_id: str, tokens: StepTokens) -> None:
        if request_id in self._open:
            self._queue.put_nowait((self._open[request_id], tokens))

    def _release(self, request_id: str, reason: FinishReason) -> None:
        if self._open.pop(request_id, None) is not None:
            self._owner.release(request_id, reason)


class AsyncEngine:
    """One engine for many clients of one event loop.

    Invariant: a sequence is known here from `open` until its last token was handed on or its answer let go of it.
    """

    def __init__(self, engine: LLMEngine, max_open: int = MAX_OPEN_SEQUENCES) -> None:
        self.engine = engine
        self._max_open = max_open
        self._answers: dict[str, Answer] = {}
        self._cached_tokens: dict[str, int] = {}  # of sequences that have begun
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: str | None = None  # the sentence for whoever still comes

    @property
    def num_open(self) -> int:
        """Sequences whose clients still wait for tokens."""
        with self._lock:
            return len(self._answers)

    def open(self, requests: Sequence[NewRequest]) -> Answer:
        """Queues sequences for the next step, all or none.

        Raises UserError for one that can never run, EngineBusy while too many wait or once the engine has stopped.
        """
        self._loop = asyncio.get_running_loop()
        answer = Answer(self, requests)
        with self._lock:
            self._admit(len(requests))
            self._answers.update((request.request_id, answer) for request in requests)
        added: list[str] = []
        try:
            for request in requests:
                self.engine.add_request(request)
                added.append(request.request_id)
        except UserError:
            self._forget([request.request_id for request in requests])
            for request_id in added:
                self.engine.abort_request(request_id)
            raise
        return answer

    def release(self, request_id: str, reason: FinishReason) -> None:
        """Nobody waits for this sequence any more: it ends at the step under way or the next."""
        self._forget([request_id])
        self.engine.abort_request(request_id, reason)

    def close(self, sentence: str = "The engine is stopping.") -> None:
        """Ends every open answer as failed and lets nobody in any more; any thread."""
        with self._lock:
            self._closed = sentence
            failed = [(request_id, StepTokens([], FinishReason.error)) for request_id in self._answers]
        self._hand_over(failed)

    def take(self, outputs: Sequence[RequestOutput]) -> None:
        """Hands the tokens of a step to those who wait for them. The engine's thread; wakes the event loop once."""
        with self._lock:
            parts = [(o.request_id, self._part(o)) for o in outputs if o.request_id in self._answers]
        if parts:
            self._hand_over(parts)

    def check_integrity(self) -> None:
        with self._lock:
            assert self._cached_tokens.keys() <= self._answers.keys(), "tokens of sequences are kept that nobody awaits"

    def _admit(self, count: int) -> None:
        if self._closed is not None:
            raise EngineBusy(self._closed)
        if len(self._answers) + count > self._max_open:
            raise EngineBusy(f"{len(self._answers)} sequences run or wait already: try again later.")

    def _part(self, output: RequestOutput) -> StepTokens:
        request = output.request
        assert request is not None, "the engine tells whose tokens these are"
        # Later admissions, after a preemption, find the request's own blocks: they say nothing of the prompt.
        cached = self._cached_tokens.setdefault(output.request_id, min(request.hit_tokens, request.num_prompt_tokens))
        wanted = output.new_token_ids and request.sampling.logprobs is not None
        logprobs = self.engine.model.logprobs.get(output.request_id) if wanted else None
        return StepTokens(output.new_token_ids, output.finish_reason, logprobs, cached)

    def _hand_over(self, parts: list[tuple[str, StepTokens]]) -> None:
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._deliver, parts)

    def _deliver(self, parts: list[tuple[str, StepTokens]]) -> None:
        for request_id, tokens in parts:
            with self._lock:
                answer = self._answers.get(request_id)
            if answer is None:
                continue
            answer.put(request_id, tokens)
            if tokens.finish_reason is not None:
                self._forget([request_id])

    def _forget(self, request_ids: Sequence[str]) -> None:
        with self._lock:
            for request_id in request_ids:
                self._answers.pop(request_id, None)
                self._cached_tokens.pop(request_id, None)
