"""OpenAI's answers as JSON: whole ones and the chunks of a stream, of completions and of chat completions.

Pure: pieces of text and counts in, dictionaries out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvxray_engine.server.choice import Piece, TokenReport, TokenText

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heading:
    """What every answer and chunk begins with. `created`: Unix seconds."""

    id: str
    created: int
    model: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. The prompt counts once, however many choices continue it."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def to_json(self) -> Json:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Shape(Protocol):
    """How one kind of request is answered."""

    id_prefix: str

    def whole(self, heading: Heading, choices: Sequence[Sequence[Piece]], usage: Usage) -> Json:
        """The answer to a request without streaming; the pieces of each choice in order."""
        ...

    def opening(self, heading: Heading, index: int) -> Json | None:
        """A chunk that comes before the first text of a choice."""
        ...

    def chunk(self, heading: Heading, index: int, piece: Piece, text_offset: int) -> Json:
        """A piece of a choice. `text_offset`: characters of the tokens before it."""
        ...

    def closing(self, heading: Heading, usage: Usage) -> Json:
        """The chunk with the counts, after all choices."""
        ...


class CompletionShape:
    """Answers of /v1/completions."""

    id_prefix = "cmpl-"

    def whole(self, heading: Heading, choices: Sequence[Sequence[Piece]], usage: Usage) -> Json:
        return self._answer(heading, [self._choice(i, pieces, 0) for i, pieces in enumerate(choices)]) | {
            "usage": usage.to_json()
        }

    def opening(self, heading: Heading, index: int) -> Json | None:
        return None

    def chunk(self, heading: Heading, index: int, piece: Piece, text_offset: int) -> Json:
        return self._answer(heading, [self._choice(index, [piece], text_offset)])

    def closing(self, heading: Heading, usage: Usage) -> Json:
        return self._answer(heading, []) | {"usage": usage.to_json()}

    def _answer(self, heading: Heading, choices: list[Json]) -> Json:
        return {
            "id": heading.id,
            "object": "text_completion",
            "created": heading.created,
            "model": heading.model,
            "choices": choices,
        }

    def _choice(self, index: int, pieces: Sequence[Piece], text_offset: int) -> Json:
        reports = [report for piece in pieces for report in piece.reports]
        return {
            "index": index,
            "text": "".join(piece.text for piece in pieces),
            "logprobs": _completion_logprobs(reports, text_offset) if reports else None,
            **_ending(pieces[-1]),
        }


class ChatShape:
    """Answers of /v1/chat/completions."""

    id_prefix = "chatcmpl-"

    def whole(self, heading: Heading, choices: Sequence[Sequence[Piece]], usage: Usage) -> Json:
        answer = self._answer(heading, "chat.completion", [self._choice(i, p) for i, p in enumerate(choices)])
        return answer | {"usage": usage.to_json()}

    def opening(self, heading: Heading, index: int) -> Json | None:
        delta = {"role": "assistant", "content": ""}
        return self._chunk(heading, [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}])

    def chunk(self, heading: Heading, index: int, piece: Piece, text_offset: int) -> Json:
        delta = {"content": piece.text} if piece.text else {}
        return self._chunk(
            heading, [{"index": index, "delta": delta, "logprobs": _chat_logprobs(piece.reports), **_ending(piece)}]
        )

    def closing(self, heading: Heading, usage: Usage) -> Json:
        return self._chunk(heading, []) | {"usage": usage.to_json()}

    def _chunk(self, heading: Heading, choices: list[Json]) -> Json:
        return self._answer(heading, "chat.completion.chunk", choices)

    def _answer(self, heading: Heading, kind: str, choices: list[Json]) -> Json:
        return {
            "id": heading.id,
            "object": kind,
            "created": heading.created,
            "model": heading.model,
            "choices": choices,
        }

    def _choice(self, index: int, pieces: Sequence[Piece]) -> Json:
        text = "".join(piece.text for piece in pieces)
        return {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": _chat_logprobs([report for piece in pieces for report in piece.reports]),
            **_ending(pieces[-1]),
        }


def _ending(piece: Piece) -> Json:
    """`stop_reason` is vLLM's: the stop string or token that ended the choice."""
    reason = None if piece.finish_reason is None else piece.finish_reason.value
    return {"finish_reason": reason, "stop_reason": piece.stopped_by}


def _completion_logprobs(reports: Sequence[TokenReport], text_offset: int) -> Json:
    offsets = []
    for report in reports:
        offsets.append(text_offset)
        text_offset += len(report.chosen.text)
    return {
        "tokens": [report.chosen.text for report in reports],
        "token_logprobs": [report.chosen.logprob for report in reports],
        "top_logprobs": [_top_by_text(report) for report in reports],
        "text_offset": offsets,
    }


def _top_by_text(report: TokenReport) -> dict[str, float]:
    """As OpenAI has it: the most likely tokens, and the chosen one where it is not among them. Of two tokens that read
    the same the more likely one is told."""
    by_text: dict[str, float] = {}
    for token in (*report.top, report.chosen):
        by_text.setdefault(token.text, token.logprob)
    return by_text


def _chat_logprobs(reports: Sequence[TokenReport]) -> Json | None:
    if not reports:
        return None
    content = [_chat_token(r.chosen) | {"top_logprobs": [_chat_token(t) for t in r.top]} for r in reports]
    return {"content": content, "refusal": None}


def _chat_token(token: TokenText) -> Json:
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.bytes)}
