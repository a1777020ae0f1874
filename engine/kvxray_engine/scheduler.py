"""Decides, step by step, which tokens are computed: continuous batching, first come first served or by priority.

A step first serves those that run, one decode token or a chunk of prefill each, then admits from the waiting line while
tokens of the budget, seats and blocks last. When one that runs finds no block, another is preempted, the last admitted
or, by priority, the least urgent: it gives back all its blocks, waits again and is computed again later, mostly out of
the prefix cache. In a step that preempted nobody new is admitted. All as vLLM V1 does it.

This file moves requests between waiting and running; it knows no model, no clock beyond its readings, no thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvxray_engine.clock import Clock
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.request import FinishReason, Request
from kvxray_engine.step_batch import ScheduledSequence
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, RequestStatus
from kvxray_engine.waiting_line import SchedulingPolicy, make_line, urgency


@dataclass(slots=True)
class StepPlan:
    """What one step computes: requests and their shares, side by side."""

    requests: list[Request] = field(default_factory=list)
    sequences: list[ScheduledSequence] = field(default_factory=list)
    num_tokens: int = 0

    def drop(self, request: Request) -> None:
        """Takes a request that was planned out again: its tokens go back to the budget."""
        if request in self.requests:
            index = self.requests.index(request)
            del self.requests[index]
            self.num_tokens -= len(self.sequences.pop(index).token_ids)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a way to end is told: status, event, and the cause of the blocks' return."""

    status: RequestStatus
    kind: Kind
    cause: Cause


ENDINGS = {
    FinishReason.stop: Ending(RequestStatus.finished, Kind.RequestFinished, Cause.finish),
    FinishReason.length: Ending(RequestStatus.finished, Kind.RequestFinished, Cause.finish),
    FinishReason.abort: Ending(RequestStatus.aborted, Kind.RequestAborted, Cause.abort),
    FinishReason.error: Ending(RequestStatus.failed, Kind.RequestFailed, Cause.error),
}


class Scheduler:
    """The waiting line and the running batch.

    `max_num_seqs`: requests running at once. `max_num_batched_tokens`: tokens computed in a step; longer prompts are
    prefilled in chunks.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        recorder: NullRecorder,
        clock: Clock,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        policy: SchedulingPolicy = SchedulingPolicy.fcfs,
    ) -> None:
        assert max_num_seqs > 0, "somebody must be allowed to run"
        assert max_num_batched_tokens > 0, "a step must be allowed to compute something"
        self.manager = manager
        self.recorder = recorder
        self.clock = clock
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.policy = policy
        self.waiting = make_line(policy)
        self.running: list[Request] = []  # in the order of admission
        self.num_preemptions = 0

    def requests(self) -> Iterator[Request]:
        """All that have not ended."""
        yield from self.running
        yield from self.waiting

    def add(self, request: Request, microseconds: int = 0) -> None:
        """Joins the waiting line. `microseconds`: when it arrived, since the step began."""
        self.waiting.join(request)
        self.recorder.op(Kind.RequestArrived, Cause.none, request.ordinal, microseconds, request.num_prompt_tokens)

    def schedule(self) -> StepPlan:
        """Plans a step; blocks are allocated, and told, as it goes."""
        plan = StepPlan()
        if not self._schedule_running(plan):
            self._admit_waiting(plan)
        return plan

    def end(self, request: Request, reason: FinishReason) -> None:
        """Ends a request wherever it stands; its blocks are back when this returns."""
        ending = ENDINGS[reason]
        if request.status is RequestStatus.running:
            self.running.remove(request)
        else:
            self.waiting.leave(request)
        request.status = ending.status
        request.finish_reason = reason
        request.ended_ns = self.clock.wall_ns()
        self.recorder.op(ending.kind, Cause.none, request.ordinal, request.num_prompt_tokens, request.num_output_tokens)
        self.manager.free(request, ending.cause)

    def preempt_all(self) -> None:
        """Everybody waits again, in the order in which they ran."""
        while self.running:
            self._preempt(self.running[-1])

    def _schedule_running(self, plan: StepPlan) -> bool:
        """Serves those that run, in order; True when somebody was preempted for it."""
        preempted = False
        index = 0
        while index < len(self.running) and plan.num_tokens < self.max_num_batched_tokens:
            request = self.running[index]
            wanted = request.num_tokens - request.num_computed_tokens
            num_new_tokens = min(wanted, self.max_num_batched_tokens - plan.num_tokens)
            while self.manager.allocate_slots(request, num_new_tokens) is None:
                preempted = True
                victim = self._victim()
                index -= self.running.index(victim) < index  # those after it move up
                plan.drop(victim)
                self._preempt(victim, beneficiary=request)
                if victim is request:
                    return True
            self._take(plan, request, num_new_tokens)
            index += 1
        return preempted

    def _admit_waiting(self, plan: StepPlan) -> None:
        """Admits from the head of the line until it does not fit: nobody is overtaken."""
        while self.waiting and len(self.running) < self.max_num_seqs and plan.num_tokens < self.max_num_batched_tokens:
            request = self.waiting.head()
            hits = self.manager.prefix_cache.longest_hit(request)
            wanted = request.num_tokens - len(hits) * self.manager.pool.block_size
            num_new_tokens = min(wanted, self.max_num_batched_tokens - plan.num_tokens)
            if not self.manager.can_admit(request, num_new_tokens, hits, others_run=bool(self.running)):
                return
            self.waiting.leave(request)
            self._start(request, hits)
            allocated = self.manager.allocate_slots(request, num_new_tokens, hits)
            assert allocated is not None, "an admission that fits must get its blocks"
            self._take(plan, request, num_new_tokens)

    def _start(self, request: Request, hits: list[int]) -> None:
        if request.status is RequestStatus.preempted:
            self.recorder.op(Kind.RequestResumed, Cause.none, request.ordinal)
        queried, hit = self.manager.prefix_cache.count(request, len(hits))
        self.recorder.op(Kind.RequestScheduled, Cause.none, request.ordinal, queried, hit)
        request.scheduled_ns = self.clock.wall_ns()
        request.status = RequestStatus.running
        self.running.append(request)

    def _victim(self) -> Request:
        """Who gives way to one that runs, perhaps that one itself."""
        return self.running[-1] if self.policy is SchedulingPolicy.fcfs else max(self.running, key=urgency)

    def _preempt(self, victim: Request, beneficiary: Request | None = None) -> None:
        self.running.remove(victim)
        self.waiting.rejoin(victim)
        victim.status = RequestStatus.preempted
        victim.num_preemptions += 1
        self.num_preemptions += 1
        for_whom = NO_ORDINAL if beneficiary in (None, victim) else beneficiary.ordinal
        self.recorder.op(Kind.RequestPreempted, Cause.preempt, victim.ordinal, victim.num_computed_tokens, for_whom)
        self.manager.free(victim, Cause.preempt)

    def _take(self, plan: StepPlan, request: Request, num_new_tokens: int) -> None:
        start = request.num_computed_tokens
        end = start + num_new_tokens
        plan.requests.append(request)
        plan.num_tokens += num_new_tokens
        plan.sequences.append(
            ScheduledSequence(
                request_id=request.request_id,
                token_ids=request.token_ids[start:end],
                start=start,
                block_table=request.block_table,
                sampling=request.sampling,
                samples=end == request.num_tokens,
                num_output_tokens=request.num_output_tokens,
            )
        )

    def check_integrity(self) -> None:
        """Asserts the laws of the line and the batch, and those of manager and pool below."""
        assert len(self.running) <= self.max_num_seqs, "more run than there are seats"
        for request in self.running:
            assert request.status is RequestStatus.running, f"{request.request_id} runs but is {request.status.name}"
            assert request.num_computed_tokens <= request.num_tokens, "more tokens computed than there are"
        for request in self.waiting:
            assert request.status in (RequestStatus.waiting, RequestStatus.preempted), "an ended request waits"
            assert not request.block_table, f"{request.request_id} waits and holds blocks"
        self.manager.check_integrity(self.requests())
