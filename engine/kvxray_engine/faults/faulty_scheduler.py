"""A scheduler that stumbles while it puts finished requests away, so that there is an error path to go wrong on."""

from __future__ import annotations

from kvxray_engine.clock import Clock
from kvxray_engine.faults.dice import Dice
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.request import FinishReason, Request
from kvxray_engine.scheduler import Scheduler
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.waiting_line import SchedulingPolicy


class FaultyScheduler(Scheduler):
    """The client has its whole answer by then; the engine counts the request as failed."""

    def __init__(
        self,
        manager: KVCacheManager,
        recorder: NullRecorder,
        clock: Clock,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        policy: SchedulingPolicy,
        dice: Dice,
    ) -> None:
        super().__init__(manager, recorder, clock, max_num_seqs, max_num_batched_tokens, policy)
        self._dice = dice

    def end(self, request: Request, reason: FinishReason) -> None:
        is_answer = reason in (FinishReason.stop, FinishReason.length)
        super().end(request, FinishReason.error if is_answer and self._dice.falls() else reason)
