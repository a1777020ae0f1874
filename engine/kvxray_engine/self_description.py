"""What an engine tells of itself as a whole: its descriptor, its totals, and everything a fold would know of it."""

from __future__ import annotations

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.request import Request
from kvxray_engine.scheduler import Scheduler
from kvxray_engine.step_batch import StepModel
from kvxray_engine.stream.pool_dump import PoolDump, RequestDump
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Descriptor, Group, Pool, Totals


def descriptor_of(pool: BlockPool, model: StepModel, labels: dict[str, str]) -> Descriptor:
    return Descriptor(
        num_blocks=pool.num_blocks,
        block_size=pool.block_size,
        null_block=0,
        bytes_per_block=model.bytes_per_block,
        kv_cache_dtype=model.kv_cache_dtype,
        groups=(Group(block_size=pool.block_size),),
        pools=(Pool(medium=model.medium, name="kv_cache", first_block_id=0, num_blocks=pool.num_blocks),),
        model=model.name,
        labels=labels,
        bytes_per_block_fp16=model.bytes_per_block_fp16,
    )


def totals_of(step: int, pool: BlockPool, scheduler: Scheduler) -> Totals:
    return Totals(
        step=step,
        num_free=pool.num_free,
        num_hashed=pool.num_hashed,
        ref_sum=pool.ref_sum,
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
    )


def dump_of(step: int, manager: KVCacheManager, scheduler: Scheduler, recorder: NullRecorder) -> PoolDump:
    """At the end of this step, as copied lists."""
    pool = manager.pool
    requests = [*scheduler.requests(), *manager.leaking]
    return PoolDump(
        ref_cnt=pool.ref_cnt[:],
        block_hash=pool.block_hash[:],
        hash_ordinal=pool.hash_ordinal[:],
        slots=pool.slots[:],
        high_water=pool.high_water,
        holds=manager.holds(scheduler.requests()),
        next_req=recorder.next_req,
        next_hash=recorder.next_hash,
        step=step,
        parent_ordinal=pool.parent_ordinal[:],
        requests=[*map(_dump_request, requests), *manager.other_holders],
    )


def _dump_request(request: Request) -> RequestDump:
    return RequestDump(
        ordinal=request.ordinal,
        name=request.name,
        status=request.status,
        prompt_tokens=request.num_prompt_tokens,
        output_tokens=request.num_output_tokens,
        queried_tokens=request.queried_tokens,
        hit_tokens=request.hit_tokens,
        preemptions=request.num_preemptions,
        arrived_ns=request.arrived_ns,
        scheduled_ns=request.scheduled_ns,
        first_token_ns=request.first_token_ns,
        ended_ns=request.ended_ns,
    )
