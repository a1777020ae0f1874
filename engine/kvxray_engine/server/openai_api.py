"""OpenAI's API over one engine: completions and chat completions, whole or streamed, and the model list.

A request becomes as many sequences as it has prompts and choices; their tokens come back through the `AsyncEngine` and
leave as text. Whatever ends early, a client that hangs up or a stop string, lets go of its sequences at once.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from kvxray_engine.engine import LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.server.access import MAX_BODY_BYTES, error_body
from kvxray_engine.server.async_engine import Answer, AsyncEngine, EngineBusy
from kvxray_engine.server.choice import Choice, Piece
from kvxray_engine.server.event_stream import CLIENT_CLOSED_REQUEST, ClientLeft, EventStream, unless_client_leaves
from kvxray_engine.server.openai_answers import ChatShape, CompletionShape, Heading, Shape, Usage
from kvxray_engine.server.openai_requests import BadBody, ChatBody, CompletionBody, GenerationBody, parse_body
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.tokenizer import Tokenizer
from kvxray_engine.waiting_line import SchedulingPolicy

DEFAULT_COMPLETION_TOKENS: Final = 16
DEFAULT_TEMPERATURE: Final = 1.0


class EngineFailed(Exception):
    """The engine could not finish an answer that had begun."""


@dataclass(frozen=True, slots=True)
class Job:
    """One client's request, ready to run: its prompts, and how each is continued `num_choices` times."""

    heading: Heading
    shape: Shape
    body: GenerationBody
    prompts: Sequence[Sequence[int]]
    sampling: SamplingParams

    def requests(self) -> list[NewRequest]:
        """Choices of one prompt stand together, as OpenAI numbers them; each has a seed of its own."""
        count = len(self.prompts) * self.body.num_choices
        return [
            NewRequest(
                request_id=self.heading.id if count == 1 else f"{self.heading.id}-{index}",
                prompt_token_ids=list(self.prompts[index // self.body.num_choices]),
                sampling=replace(self.sampling, seed=self.sampling.seed + index % self.body.num_choices),
                priority=self.body.priority,
                cache_salt=self.body.cache_salt or "",
            )
            for index in range(count)
        ]


class OpenAIServer:
    """Answers for one engine. `model_names`: what clients may call the model; the first is what answers say."""

    def __init__(self, engine: AsyncEngine, tokenizer: Tokenizer, model_names: Sequence[str], seed: int = 0) -> None:
        assert model_names, "a model has a name"
        self.engine = engine
        self.tokenizer = tokenizer
        self.model_names = tuple(model_names)
        self.started = int(time.time())
        self._seeds = Random(seed)  # for requests that bring none

    # Jobs

    def job(self, body: CompletionBody | ChatBody) -> Job:
        """Raises UserError when the body asks for what cannot be done. Any thread."""
        return self._completion(body) if isinstance(body, CompletionBody) else self._chat(body)

    def _completion(self, body: CompletionBody) -> Job:
        prompts = [
            self.tokenizer.encode(prompt, add_special_tokens=True) if isinstance(prompt, str) else prompt
            for prompt in body.prompts
        ]
        return self._job(CompletionShape(), body, prompts, body.max_tokens or DEFAULT_COMPLETION_TOKENS)

    def _chat(self, body: ChatBody) -> Job:
        messages = [{"role": message.template_role, "content": message.text} for message in body.messages]
        prompt = self.tokenizer.apply_chat_template(messages)
        return self._job(ChatShape(), body, [prompt], body.max_completion_tokens or body.max_tokens)

    def _job(self, shape: Shape, body: GenerationBody, prompts: Sequence[list[int]], max_tokens: int | None) -> Job:
        longest = max(map(len, prompts))
        limit = self.engine.engine.max_model_len
        if max_tokens is not None and longest + max_tokens > limit:
            raise BadBody(
                f"This model reads and writes at most {limit} tokens, but the prompt has {longest} and {max_tokens} "
                "more are asked for: shorten one of them.",
                "max_tokens",
            )
        if body.priority and self.engine.engine.config.policy is not SchedulingPolicy.priority:
            raise BadBody("priority needs an engine that runs with --scheduling-policy priority.", "priority")
        seed = self._seeds.randrange(2**62) if body.seed is None else body.seed
        sampling = SamplingParams(
            temperature=DEFAULT_TEMPERATURE if body.temperature is None else body.temperature,
            top_p=1.0 if body.top_p is None else body.top_p,
            seed=seed,
            max_tokens=max_tokens or max(1, limit - longest),
            stop_token_ids=tuple(body.stop_token_ids or ()),
            ignore_eos=body.ignore_eos,
            logprobs=body.num_logprobs,
        )
        heading = Heading(shape.id_prefix + uuid.uuid4().hex, int(time.time()), body.model or self.model_names[0])
        return Job(heading, shape, body, prompts, sampling)

    # Answers

    async def collect(self, job: Job, answer: Answer) -> dict[str, Any]:
        """The whole answer. Raises EngineFailed when the engine could not finish it."""
        choices = self._choices(job)
        pieces: list[list[Piece]] = [[] for _ in choices]
        async for index, piece in self._pieces(answer, choices):
            pieces[index].append(piece)
        return job.shape.whole(job.heading, pieces, self._usage(job, choices))

    async def stream(self, job: Job, answer: Answer) -> AsyncIterator[dict[str, Any]]:
        """The answer in chunks; an engine that fails is told in the last of them."""
        choices = self._choices(job)
        offsets = [0] * len(choices)
        usage_key: dict[str, Any] = {"usage": None} if job.body.includes_usage else {}
        for index in range(len(choices)):
            if opening := job.shape.opening(job.heading, index):
                yield opening | usage_key
        try:
            async for index, piece in self._pieces(answer, choices):
                if piece.text or piece.reports or piece.finish_reason is not None:
                    yield job.shape.chunk(job.heading, index, piece, offsets[index]) | usage_key
                offsets[index] += sum(len(report.chosen.text) for report in piece.reports)
        except EngineFailed as error:
            yield error_body(500, str(error))
            return
        if job.body.includes_usage:
            yield job.shape.closing(job.heading, self._usage(job, choices))

    def _choices(self, job: Job) -> list[Choice]:
        stop, stop_token_ids = job.body.stop_strings, job.sampling.stop_token_ids
        count = len(job.prompts) * job.body.num_choices
        return [Choice(self.tokenizer, stop, stop_token_ids) for _ in range(count)]

    async def _pieces(self, answer: Answer, choices: Sequence[Choice]) -> AsyncIterator[tuple[int, Piece]]:
        """What comes, as text; a choice that met its stop string is let go."""
        async for index, tokens in answer:
            piece = choices[index].add(tokens)
            if piece.finish_reason in (FinishReason.error, FinishReason.abort):
                raise EngineFailed("The engine failed before the answer was complete: its log says why; try again.")
            if piece.finish_reason is not None:
                answer.finish(index)
            yield index, piece

    def _usage(self, job: Job, choices: Sequence[Choice]) -> Usage:
        first_choices = choices[:: job.body.num_choices]
        return Usage(
            prompt_tokens=sum(map(len, job.prompts)),
            completion_tokens=sum(choice.num_tokens for choice in choices),
            # Of the first choice of each prompt: what was cached before this request came.
            cached_tokens=sum(choice.num_cached_tokens for choice in first_choices),
        )


def openai_router(server: OpenAIServer, max_body_bytes: int = MAX_BODY_BYTES) -> APIRouter:
    """The routes under /v1."""
    router = APIRouter(prefix="/v1")

    @router.head("/models", response_model=None, include_in_schema=False)
    @router.get("/models", response_model=None)
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model_card(server, name) for name in server.model_names]}

    @router.head("/models/{name:path}", response_model=None, include_in_schema=False)
    @router.get("/models/{name:path}", response_model=None)
    async def model(name: str) -> Response:
        if name not in server.model_names:
            return _unknown_model(server, name)
        return _json(_model_card(server, name))

    @router.post("/completions", response_model=None)
    async def completions(request: Request) -> Response:
        return await _answer(request, server, CompletionBody, max_body_bytes)

    @router.post("/chat/completions", response_model=None)
    async def chat_completions(request: Request) -> Response:
        return await _answer(request, server, ChatBody, max_body_bytes)

    return router


async def _answer(
    request: Request, server: OpenAIServer, kind: type[CompletionBody] | type[ChatBody], max_body_bytes: int
) -> Response:
    try:
        raw = await _read_body(request, max_body_bytes)
        if raw is None:
            return _error(413, f"The body is larger than {max_body_bytes} bytes: send less.")
        body = parse_body(kind, raw)
        if body.model is not None and body.model not in server.model_names:
            return _unknown_model(server, body.model)
        # In a thread: a megabyte of text takes a while to become tokens, and the others' tokens must not wait for it.
        job = await asyncio.to_thread(server.job, body)
        answer = server.engine.open(job.requests())
    except UserError as error:
        return _error(400, str(error), error.param if isinstance(error, BadBody) else None)
    except EngineBusy as error:
        return _error(503, str(error))
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    if body.stream:
        return EventStream(server.stream(job, answer), on_end=answer.close)
    try:
        return _json(await unless_client_leaves(request.receive, server.collect(job, answer)))
    except ClientLeft:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except EngineFailed as error:
        return _error(500, str(error))
    finally:
        answer.close()


async def _read_body(request: Request, max_bytes: int) -> bytes | None:
    """None when it is larger than that; not every client says beforehand how much it sends."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _model_card(server: OpenAIServer, name: str) -> dict[str, Any]:
    engine: LLMEngine = server.engine.engine
    return {
        "id": name,
        "object": "model",
        "created": server.started,
        "owned_by": "kvxray",
        "root": engine.model.name,
        "parent": None,
        "max_model_len": engine.max_model_len,
    }


def _unknown_model(server: OpenAIServer, name: str) -> Response:
    sentence = f"There is no model {name[:100]!r} here: use {' or '.join(server.model_names)}."
    return _error(404, sentence, "model", "model_not_found")


def _error(status: int, sentence: str, param: str | None = None, code: str | None = None) -> Response:
    return _json(error_body(status, sentence, param, code), status)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
