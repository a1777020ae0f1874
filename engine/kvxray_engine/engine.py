"""The engine: requests in, tokens out, one step at a time; every block it moves is told to the recorder.

One thread runs `step`. Other threads add and abort requests through the inbox, which a step empties as it begins and as
it ends: an abort frees its blocks within one step, and arrivals are told with the time at which they came. The clock is
injected: with a null model and a virtual clock, hours pass in seconds.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kvxray_engine.baselines import Allocation, make_manager
from kvxray_engine.block_pool import FreeOrder
from kvxray_engine.clock import Clock, SystemClock
from kvxray_engine.errors import UserError
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.placing import make_faulty_manager, make_pool, make_scheduler
from kvxray_engine.inbox import Inbox
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import FinishReason, NewRequest, Request
from kvxray_engine.scheduler import StepPlan
from kvxray_engine.self_description import descriptor_of, dump_of, totals_of
from kvxray_engine.step_batch import StepModel
from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Descriptor, Kind, Name, Totals
from kvxray_engine.waiting_line import SchedulingPolicy

MAX_NAME = 128
"""Characters: names travel in every message that speaks of them first."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits and policies. `max_model_len` None: as long as model and pool allow."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    watermark: float = 0.0  # share of the pool an admission leaves free while others run
    free_order: FreeOrder = FreeOrder.unhashed_first
    policy: SchedulingPolicy = SchedulingPolicy.fcfs
    allocation: Allocation = Allocation.paged  # the others, for comparison, share nothing
    faults: tuple[Fault, ...] = ()  # on purpose


@dataclass(slots=True)
class RequestOutput:
    """What a step brought one request; `finish_reason` None while it goes on. Not frozen, for the sake of speed."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: FinishReason | None = None
    request: Request | None = None  # the engine's own record, for the thread that steps to read before the next step


class LLMEngine:
    """A model, a block pool and a scheduler, and the story of what they do."""

    def __init__(
        self,
        model: StepModel,
        config: EngineConfig | None = None,
        recorder: NullRecorder | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.model = model
        self.config = config or EngineConfig()
        self.recorder = recorder or NullRecorder()
        self.clock = clock or SystemClock()
        faults = self.config.faults
        self.pool = make_pool(faults, model.num_blocks, model.block_size, self.recorder, self.config.free_order)
        self.max_model_len = self._longest_sequence()
        allocation = self.config.allocation
        shares = self.config.enable_prefix_caching and allocation is Allocation.paged
        self.prefix_cache = PrefixCache(self.pool, shares)
        manager = make_manager(allocation, self.pool, self.prefix_cache, self.config.watermark, self.max_model_len)
        self.manager = make_faulty_manager(
            faults, manager, self.pool, self.prefix_cache, self.config.watermark, self.clock
        )
        self.scheduler = make_scheduler(
            faults, self.manager, self.recorder, self.clock, self.config.max_num_seqs,
            self.config.max_num_batched_tokens, self.config.policy,
        )  # fmt: skip
        self.step_count = 0
        self.computed_tokens = 0  # of the last step
        self._step_started_ns = 0
        self._requests: dict[str, Request] = {}  # all that have not ended; only the engine's thread touches it
        self.inbox = Inbox(self.clock)

    def _longest_sequence(self) -> int:
        room = self.pool.usable_blocks * self.pool.block_size
        wanted = self.config.max_model_len
        if wanted is None:
            return min(self.model.max_model_len, room)
        if wanted > self.model.max_model_len:
            raise UserError(
                f"{self.model.name} reads at most {self.model.max_model_len} tokens: set max_model_len to that or less."
            )
        if wanted > room:
            raise UserError(
                f"A sequence of {wanted} tokens does not fit {self.pool.usable_blocks} blocks of "
                f"{self.pool.block_size}: give the pool more blocks or set max_model_len to {room} or less."
            )
        return wanted

    def descriptor(self, labels: dict[str, str] | None = None) -> Descriptor:
        """What this source is, for the stream."""
        return descriptor_of(self.pool, self.model, labels or {})

    # Any thread.

    def add_request(self, request: NewRequest) -> None:
        """Queues a request for the next step. Raises UserError when it can never run."""
        self._check(request)
        self.inbox.add(request)

    def abort_request(self, request_id: str, reason: FinishReason = FinishReason.abort) -> None:
        """Ends a request as the step under way or the next one ends; one that is not there is ignored.

        `reason`: stop, where its client has all it wants, such as up to a stop string.
        """
        self.inbox.abort(request_id, reason)

    def _check(self, request: NewRequest) -> None:
        tokens = request.prompt_token_ids
        if not tokens:
            raise UserError("An empty prompt cannot be continued: send at least one token.")
        if len(tokens) >= self.max_model_len:
            raise UserError(
                f"The prompt has {len(tokens)} tokens, with at least one more to come that is over the limit of "
                f"{self.max_model_len}: shorten it."
            )
        if min(tokens) < 0 or max(tokens) >= self.model.vocab_size:
            raise UserError(f"Token ids of {self.model.name} go from 0 to {self.model.vocab_size - 1}.")
        if request.sampling.max_tokens < 1:
            raise UserError("max_tokens must be at least 1.")
        if max(map(len, (request.request_id, request.session, request.lora_name, request.cache_salt))) > MAX_NAME:
            raise UserError(f"Request ids, sessions, adapters and salts have at most {MAX_NAME} characters.")

    # The engine's thread.

    @property
    def has_work(self) -> bool:
        return bool(self._requests) or len(self.inbox) > 0

    def step(self) -> list[RequestOutput]:
        """Schedules, computes and settles one step; nothing to do is no step."""
        outputs: list[RequestOutput] = []
        self.computed_tokens = 0
        if self.has_work:
            self.step_count += 1
            self._step_started_ns = self.clock.wall_ns()
            self.recorder.start_step(self.step_count)
            outputs += self._empty_inbox()
            plan = self.scheduler.schedule()
            if plan.requests:
                outputs += self._compute(plan)
                outputs += self._empty_inbox()
            self.computed_tokens = plan.num_tokens
            self.recorder.complete_step(plan.num_tokens, self._totals() if self.recorder.enabled else None)
        if self.recorder.wants_dump:
            self.recorder.give_dump(self.dump_state())
        return outputs

    def take_in(self) -> list[RequestOutput]:
        """Between steps: takes in what other threads asked for and computes nothing; returns what was aborted."""
        self._step_started_ns = self.clock.wall_ns()
        return self._empty_inbox()

    def _empty_inbox(self) -> list[RequestOutput]:
        aborted: list[RequestOutput] = []
        for entry in self.inbox.take():
            if isinstance(entry.what, NewRequest):
                self._arrive(entry.what, entry.came_ns)
            elif entry.what in self._requests:
                aborted.append(self._end(self._requests[entry.what], entry.reason, []))
        return aborted

    def _arrive(self, new: NewRequest, came_ns: int) -> None:
        name = Name(id=new.request_id, session=new.session, lora=new.lora_name, salt=new.cache_salt)
        request = Request(
            request_id=new.request_id,
            ordinal=self.recorder.new_holder(name),
            name=name,
            token_ids=list(new.prompt_token_ids),
            num_prompt_tokens=len(new.prompt_token_ids),
            sampling=new.sampling,
            priority=new.priority,
            lora_name=new.lora_name,
            lora_path=new.lora_path,
            lora_id=new.lora_id,
            cache_salt=new.cache_salt,
            arrived_ns=came_ns,
        )
        self._requests[new.request_id] = request
        self.scheduler.add(request, max(0, came_ns - self._step_started_ns) // 1000)

    def _compute(self, plan: StepPlan) -> list[RequestOutput]:
        try:
            sampled = self.model.execute(plan.sequences)
        except Exception:
            logger.exception("step %d failed; its %d requests are ended", self.step_count, len(plan.requests))
            return self._fail(plan)
        self._tell_filled_blocks(plan)
        return self._settle(plan, sampled)

    def _fail(self, plan: StepPlan) -> list[RequestOutput]:
        """Ends the requests of a step that computed nothing."""
        return [self._end(request, FinishReason.error, []) for request in plan.requests]

    def _tell_filled_blocks(self, plan: StepPlan) -> None:
        """Blocks written in this step that did not become cached ones (those are known to be full)."""
        size = self.pool.block_size
        blocks: list[int] = []
        slots: list[int] = []
        for request, sequence in zip(plan.requests, plan.sequences, strict=True):
            end = sequence.start + len(sequence.token_ids)
            request.num_computed_tokens = end
            for index in range(max(sequence.start // size, request.num_cached_blocks), -(-end // size)):
                blocks.append(request.block_table[index])
                slots.append(min(size, end - index * size))
        self.pool.fill(blocks, slots)

    def _settle(self, plan: StepPlan, sampled: list[int]) -> list[RequestOutput]:
        """Appends sampled tokens and ends those that are through."""
        now = self.clock.wall_ns()
        took_token = [
            (request, token)
            for request, sequence, token in zip(plan.requests, plan.sequences, sampled, strict=True)
            if sequence.samples
        ]
        for request, token in took_token:
            request.token_ids.append(token)
            request.first_token_ns = request.first_token_ns or now
        requests = [request for request, _ in took_token]
        self.recorder.ops(
            Kind.TokensGenerated,
            [request.ordinal for request in requests],
            [1] * len(requests),
            [request.num_output_tokens for request in requests],
        )
        outputs: list[RequestOutput] = []
        for request, token in took_token:
            reason = self._finish_reason(request, token)
            outputs.append(
                self._end(request, reason, [token])
                if reason
                else RequestOutput(request.request_id, [token], request=request)
            )
        return outputs

    def _finish_reason(self, request: Request, token: int) -> FinishReason | None:
        sampling = request.sampling
        if token in sampling.stop_token_ids or (not sampling.ignore_eos and token in self.model.eos_token_ids):
            return FinishReason.stop
        if request.num_output_tokens >= sampling.max_tokens or request.num_tokens >= self.max_model_len:
            return FinishReason.length
        return None

    def _end(self, request: Request, reason: FinishReason, new_token_ids: list[int]) -> RequestOutput:
        self.scheduler.end(request, reason)
        del self._requests[request.request_id]
        self.inbox.forget(request.request_id)
        return RequestOutput(request.request_id, new_token_ids, reason, request)

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forgets everything cached; False, and nothing forgotten, while any block is referenced.

        `reset_running_requests`: preempts all that run first, so that only blocks that leaked stand in the way.
        """
        if reset_running_requests:
            self.scheduler.preempt_all()
        done = self.manager.reset_prefix_cache()
        self.recorder.flush(self._totals())
        return done

    def _totals(self) -> Totals:
        return totals_of(self.step_count, self.pool, self.scheduler)

    def dump_state(self) -> PoolDump:
        """Everything a fold would know at the end of this step, as copied lists."""
        return dump_of(self.step_count, self.manager, self.scheduler, self.recorder)

    def check_integrity(self) -> None:
        """Asserts every law of engine, scheduler, manager and pool."""
        known = {request.request_id for request in self.scheduler.requests()}
        assert known == self._requests.keys(), "scheduler and engine know different requests"
        self.scheduler.check_integrity()
