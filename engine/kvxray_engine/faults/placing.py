"""Which objects take the place of right ones, by the faults asked for. Without faults all are the right ones, and no
code of faults runs: an engine pays nothing for being able to fail.
"""

from __future__ import annotations

from typing import Any

from kvxray_engine.block_pool import BlockPool, FreeOrder
from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError
from kvxray_engine.faults.dice import Dice, dice_of
from kvxray_engine.faults.endings import EndingFault, FreedTwice, HeldByAnother, KeptAll, KeptShared, ReleasedTwice
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.faulty_manager import FaultyManager
from kvxray_engine.faults.faulty_pool import FaultyPool
from kvxray_engine.faults.faulty_publisher import FaultyPublisher
from kvxray_engine.faults.faulty_scheduler import FaultyScheduler
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.scheduler import Scheduler
from kvxray_engine.stream.publisher import Publisher
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Cause
from kvxray_engine.waiting_line import SchedulingPolicy

Faults = tuple[Fault, ...]

_OF_POOL = frozenset({"double-free", "ref-underflow", "stale-hash"})
_OF_STREAM = frozenset({"lost-messages", "reordered-messages", "duplicated-messages", "frozen-publisher"})


def make_pool(
    faults: Faults, num_blocks: int, block_size: int, recorder: NullRecorder, free_order: FreeOrder
) -> BlockPool:
    """The pool of an engine with these faults."""
    if not _any_of(faults, _OF_POOL):
        return BlockPool(num_blocks, block_size, recorder, free_order)
    return FaultyPool(num_blocks, block_size, recorder, free_order, dice_of(faults, "stale-hash"))


def make_faulty_manager(
    faults: Faults, manager: KVCacheManager, pool: BlockPool, prefix_cache: PrefixCache, watermark: float, clock: Clock
) -> KVCacheManager:
    """`manager` itself, where none of the faults is one of its kind.

    Raises UserError where requests do not page: what they reserve has no faults of its own.
    """
    endings = tuple(_endings(faults, pool, clock))
    if not endings:
        return manager
    if type(manager) is not KVCacheManager:
        raise UserError("Faults of how blocks are given back need a cache that is paged.")
    return FaultyManager(pool, prefix_cache, watermark, endings)


def make_scheduler(
    faults: Faults,
    manager: KVCacheManager,
    recorder: NullRecorder,
    clock: Clock,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    policy: SchedulingPolicy,
) -> Scheduler:
    """The scheduler of an engine with these faults."""
    dice = dice_of(faults, "leak-on-error")
    if dice is None:
        return Scheduler(manager, recorder, clock, max_num_seqs, max_num_batched_tokens, policy)
    return FaultyScheduler(manager, recorder, clock, max_num_seqs, max_num_batched_tokens, policy, dice)


def make_publisher(faults: Faults, *args: Any, **options: Any) -> Publisher:
    """The publisher of an engine with these faults; takes what `Publisher` takes."""
    if not _any_of(faults, _OF_STREAM):
        return Publisher(*args, **options)
    return FaultyPublisher(faults, *args, **options)


def _endings(faults: Faults, pool: BlockPool, clock: Clock) -> list[EndingFault]:
    return [ending for fault in faults if (ending := _ending(fault, pool, clock)) is not None]


def _ending(fault: Fault, pool: BlockPool, clock: Clock) -> EndingFault | None:
    dice = Dice(fault)
    match fault.name:
        case "leak-on-abort":
            return KeptAll(dice, Cause.abort)
        case "leak-on-error":
            # The scheduler's dice decide which answers fail; each failed request leaks.
            return KeptAll(Dice(Fault(fault.name, 1.0, fault.seed)), Cause.error)
        case "forgotten-dereference":
            return KeptShared(dice)
        case "stuck-pin":
            return HeldByAnother(dice, Cause.pin, clock)
        case "expired-lease":
            return HeldByAnother(dice, Cause.lease, clock)
    if isinstance(pool, FaultyPool) and fault.name == "double-free":
        return FreedTwice(dice, pool)
    if isinstance(pool, FaultyPool) and fault.name == "ref-underflow":
        return ReleasedTwice(dice, pool)
    return None


def _any_of(faults: Faults, names: frozenset[str]) -> bool:
    return any(fault.name in names for fault in faults)
