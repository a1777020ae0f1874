"""The text of requests as it grows: kept in memory for whoever asks, forgotten soon after the request ended.

Written by the engine's thread, read by the API's. Prompts are not in it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvxray_engine.engine import RequestOutput
from kvxray_engine.tokenizer import Tokenizer


@dataclass(slots=True)
class _Answer:
    token_ids: list[int] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True, slots=True)
class RequestText:
    request_id: str
    text: str
    finished: bool


class RequestTexts:
    """Answers of all running requests and of the last `keep_ended` that ended; decoded only when asked for."""

    def __init__(self, tokenizer: Tokenizer, keep_ended: int = 1000) -> None:
        self._tokenizer = tokenizer
        self._keep_ended = keep_ended
        self._live: dict[str, _Answer] = {}
        self._ended: OrderedDict[str, _Answer] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, outputs: Iterable[RequestOutput]) -> None:
        """Adds what a step brought."""
        with self._lock:
            for output in outputs:
                answer = self._live.setdefault(output.request_id, _Answer())
                answer.token_ids.extend(output.new_token_ids)
                if output.finish_reason is not None:
                    answer.finished = True
                    self._ended[output.request_id] = self._live.pop(output.request_id)
                    self._ended.move_to_end(output.request_id)
            while len(self._ended) > self._keep_ended:
                self._ended.popitem(last=False)

    def get(self, request_id: str) -> RequestText | None:
        """None when nothing was generated yet, or it is forgotten."""
        with self._lock:
            answer = self._live.get(request_id) or self._ended.get(request_id)
            if answer is None:
                return None
            token_ids, finished = answer.token_ids[:], answer.finished
        return RequestText(request_id, self._tokenizer.decode(token_ids), finished)

    def check_integrity(self) -> None:
        with self._lock:
            assert len(self._ended) <= self._keep_ended, "more answers are kept than allowed"
            assert not any(answer.finished for answer in self._live.values()), "an ended answer counts as live"
