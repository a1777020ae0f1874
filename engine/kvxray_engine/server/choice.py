"""One choice of an answer: tokens in as they come, text out, cut at stop strings, with the log-probabilities asked for.

Knows tokens and text; how OpenAI's API writes them down is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvxray_engine.request import FinishReason
from kvxray_engine.server.async_engine import StepTokens
from kvxray_engine.server.stop_strings import StopStrings
from kvxray_engine.tokenizer import TextStream, Tokenizer

LOWEST_LOGPROB = -9999.0
"""JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token as an answer shows it: its text (the name of a special token), its bytes and its log-probability."""

    text: str
    bytes: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenReport:
    """A generated token, and the most likely tokens at its place, the most likely first."""

    chosen: TokenText
    top: tuple[TokenText, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """What some tokens add to a choice. `finish_reason` None while it goes on; `stopped_by`: the stop string or token
    that ended it, where one did."""

    text: str
    reports: tuple[TokenReport, ...]
    finish_reason: FinishReason | None = None
    stopped_by: str | int | None = None


class Choice:
    """The text of one sequence. `num_tokens`: generated so far, up to the end of its text."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str], stop_token_ids: Sequence[int]) -> None:
        self.num_tokens = 0
        self.num_cached_tokens = 0
        self._tokenizer = tokenizer
        self._stop_token_ids = frozenset(stop_token_ids)
        self._text = TextStream(tokenizer)
        self._stop = StopStrings(stop)

    def add(self, tokens: StepTokens) -> Piece:
        """The piece that these tokens bring; a matched stop string ends it, whatever the engine says."""
        self.num_tokens += len(tokens.token_ids)
        self.num_cached_tokens = tokens.num_cached_tokens
        reports = self._reports(tokens)
        text = self._stop.add(self._text.add(tokens.token_ids))
        reason = tokens.finish_reason
        if reason is not None and self._stop.matched is None:
            text += self._stop.add(self._text.finish())
        if self._stop.matched is not None:
            return Piece(text, reports, FinishReason.stop, self._stop.matched)
        if reason is None:
            return Piece(text, reports)
        return Piece(text + self._stop.finish(), reports, reason, self._stop_token(tokens))

    def _stop_token(self, tokens: StepTokens) -> int | None:
        last = tokens.token_ids[-1] if tokens.token_ids else None
        return last if tokens.finish_reason is FinishReason.stop and last in self._stop_token_ids else None

    def _reports(self, tokens: StepTokens) -> tuple[TokenReport, ...]:
        if tokens.logprobs is None:
            return ()
        (token_id,) = tokens.token_ids
        top = tuple(self._token_text(other, logprob) for other, logprob in tokens.logprobs.top)
        return (TokenReport(self._token_text(token_id, tokens.logprobs.chosen), top),)

    def _token_text(self, token_id: int, logprob: float) -> TokenText:
        return TokenText(
            self._tokenizer.token_text(token_id), self._tokenizer.token_bytes(token_id), max(logprob, LOWEST_LOGPROB)
        )
