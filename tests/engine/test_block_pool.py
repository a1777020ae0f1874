"""The block pool: the order in which blocks are given out, kept and evicted, and what is told of it."""

import pytest
from kvxray_engine.block_pool import BlockPool, FreeOrder
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import NullRecorder, Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind

ME, YOU = 0, 1


def make_pool(num_blocks: int = 11, free_order: FreeOrder = FreeOrder.unhashed_first) -> BlockPool:
    return BlockPool(num_blocks, block_size=4, recorder=NullRecorder(), free_order=free_order)


def hashes(*numbers: int) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in numbers]


def free_table(pool: BlockPool, blocks: list[int], holder: int = ME) -> None:
    pool.free(blocks[::-1], holder, Cause.finish)


def test_blocks_come_in_order_and_never_the_null_block() -> None:
    pool = make_pool()
    assert pool.allocate(10, ME) == list(range(1, 11))
    assert (pool.num_free, pool.usage, pool.high_water) == (0, 1.0, 11)
    pool.check_integrity()


def test_allocating_nothing_changes_nothing() -> None:
    pool = make_pool()
    assert pool.allocate(0, ME) == []
    assert pool.free_queue() == list(range(1, 11))
    pool.check_integrity()


def test_unhashed_blocks_are_reused_first_and_hashed_ones_last() -> None:
    pool = make_pool()
    table = pool.allocate(5, ME)
    pool.cache(table[:3], hashes(1, 2, 3), ME)
    free_table(pool, table)
    assert pool.free_queue() == [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]
    pool.check_integrity()


def test_the_older_order_appends_every_freed_block() -> None:
    pool = make_pool(free_order=FreeOrder.all_appended)
    table = pool.allocate(5, ME)
    pool.cache(table[:3], hashes(1, 2, 3), ME)
    free_table(pool, table)
    assert pool.free_queue() == [6, 7, 8, 9, 10, 5, 4, 3, 2, 1]
    pool.check_integrity()


def test_a_cached_block_is_found_until_its_turn_to_be_allocated_comes() -> None:
    pool = make_pool(num_blocks=4)
    table = pool.allocate(3, ME)
    pool.cache(table, hashes(1, 2, 3), ME)
    free_table(pool, table)
    assert [pool.lookup(one) for one in hashes(1, 2, 3)] == [1, 2, 3]
    assert pool.allocate(2, YOU) == [3, 2]
    assert [pool.lookup(one) for one in hashes(1, 2, 3)] == [1, None, None]
    assert pool.num_hashed == 1
    pool.check_integrity()


def test_chosen_blocks_are_allocated_wherever_they_stand_in_the_queue() -> None:
    recorder = Recorder(handover=Handover())
    pool = BlockPool(8, 4, recorder)
    table = pool.allocate(3, ME)
    pool.cache(table, hashes(1, 2, 3), ME)
    pool.fill([], [])
    free_table(pool, table)
    recorder.flush()
    recorder.handover.take()
    pool.claim([2, 5], YOU)
    pool.check_integrity()
    assert pool.free_queue() == [4, 6, 7, 3, 1]
    assert (pool.ref_cnt[2], pool.slots[2], pool.lookup(hashes(2)[0]), pool.high_water) == (1, 0, None, 6)
    recorder.flush()
    (message,), _ = recorder.handover.take()
    operations = message.operations
    told = list(zip(operations[::6], operations[1::6], operations[3::6], strict=True))
    assert told[1:] == [(Kind.BlockEvicted, Cause.allocation, 1), (Kind.BlockAllocated, Cause.none, 2)]
    with pytest.raises(AssertionError, match="cannot be claimed"):
        pool.claim([1, 5], ME)


def test_a_touched_block_leaves_the_queue_and_is_shared() -> None:
    pool = make_pool(num_blocks=4)
    table = pool.allocate(2, ME)
    pool.cache(table, hashes(1, 2), ME)
    free_table(pool, table)
    pool.touch([1], ME)
    pool.touch([1], YOU)
    assert pool.ref_cnt[1] == 2
    assert pool.free_queue() == [3, 2]
    pool.free([1], ME, Cause.abort)
    assert pool.free_queue() == [3, 2]
    pool.free([1], YOU, Cause.abort)
    assert pool.free_queue() == [3, 2, 1]
    pool.check_integrity()


def test_of_duplicates_the_first_is_found_and_each_is_evicted_alone() -> None:
    pool = make_pool(num_blocks=4)
    table = pool.allocate(3, ME)
    for block in table:
        pool.cache([block], hashes(7), ME)
    assert pool.lookup(hashes(7)[0]) == 1
    pool.evict([1])
    assert pool.lookup(hashes(7)[0]) == 2
    pool.check_integrity()
    pool.evict([2, 3])
    assert pool.lookup(hashes(7)[0]) is None
    assert pool.cached_blocks == {}
    pool.check_integrity()


def test_a_reset_is_refused_while_a_block_is_referenced() -> None:
    pool = make_pool(num_blocks=4)
    table = pool.allocate(2, ME)
    pool.cache(table, hashes(1, 2), ME)
    assert not pool.reset()
    assert pool.num_hashed == 2
    free_table(pool, table)
    order = pool.free_queue()
    assert pool.reset()
    assert (pool.num_hashed, pool.cached_blocks, pool.free_queue()) == (0, {}, order)
    pool.check_integrity()


def test_freeing_twice_and_taking_too_much_are_mistakes() -> None:
    pool = make_pool(num_blocks=4)
    table = pool.allocate(1, ME)
    pool.free(table, ME, Cause.finish)
    with pytest.raises(AssertionError, match="freed twice"):
        pool.free(table, ME, Cause.finish)
    with pytest.raises(AssertionError, match="4 blocks wanted, 3 free"):
        make_pool(num_blocks=4).allocate(4, ME)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda pool: pool.ref_cnt.__setitem__(1, 2),
        lambda pool: pool.ref_cnt.__setitem__(1, 0),
        lambda pool: pool.block_hash.__setitem__(1, None),
        lambda pool: pool.cached_blocks.clear(),
        lambda pool: pool.slots.__setitem__(3, 5),
        lambda pool: pool._queue.previous.__setitem__(3, 1),
        lambda pool: setattr(pool, "num_free", 2),
    ],
)
def test_broken_laws_are_seen(break_it) -> None:
    pool = make_pool(num_blocks=4)
    pool.cache(pool.allocate(2, ME), hashes(1, 2), ME)
    pool.check_integrity()
    break_it(pool)
    with pytest.raises(AssertionError):
        pool.check_integrity()


def record(pool_script) -> list[tuple]:
    """What a pool told: (kind, cause, holder, blocks, values) of each operation."""
    recorder = Recorder(handover=Handover())
    pool_script(BlockPool(num_blocks=5, block_size=4, recorder=recorder))
    recorder.flush()
    (message,), _ = recorder.handover.take()
    recorder.handover.close()
    columns = to_message(message, "test", "once", hash_width=32).columns
    told, blocks, values = [], iter(columns.blk.tolist()), iter(columns.val.tolist())
    operations = (columns.kind.tolist(), columns.cause.tolist(), columns.req.tolist(), columns.n.tolist())
    for kind, cause, req, rows in zip(*operations, strict=True):
        has_values = kind in (Kind.BlockReferenced, Kind.BlockDereferenced, Kind.BlockCached, Kind.BlockFilled)
        row_blocks = [next(blocks) for _ in range(rows)]
        told.append((Kind(kind), Cause(cause), req, row_blocks, [next(values) for _ in range(rows * has_values)]))
    return told[1:]  # the first says that a step began


def test_what_is_told_of_a_shared_prefix_from_allocation_to_eviction() -> None:
    def script(pool: BlockPool) -> None:
        table = pool.allocate(3, ME)
        pool.cache(table[:2], hashes(1, 2), ME)
        pool.fill(table[2:], [3])
        pool.touch(table[:2], YOU)
        pool.free(table[::-1], ME, Cause.preempt)
        pool.free([2, 1], YOU, Cause.finish)
        pool.allocate(4, ME)

    assert record(script) == [
        (Kind.BlockAllocated, Cause.none, ME, [1, 2, 3], []),
        (Kind.BlockCached, Cause.none, ME, [1, 2], [-1, 0]),
        (Kind.BlockFilled, Cause.none, NO_ORDINAL, [3], [3]),
        (Kind.BlockReferenced, Cause.hit, YOU, [1, 2], [2, 2]),
        (Kind.BlockFreed, Cause.preempt, ME, [3], []),
        (Kind.BlockDereferenced, Cause.preempt, ME, [2, 1], [1, 1]),
        (Kind.BlockFreed, Cause.finish, YOU, [2, 1], []),
        (Kind.BlockEvicted, Cause.allocation, ME, [2, 1], []),
        (Kind.BlockAllocated, Cause.none, ME, [3, 4, 2, 1], []),
    ]


def test_a_chain_continued_later_names_its_parent() -> None:
    def script(pool: BlockPool) -> None:
        table = pool.allocate(3, ME)
        pool.cache(table[:1], hashes(1), ME)
        pool.cache(table[1:], hashes(2, 3), ME, parent_block=table[0])

    assert [told[4] for told in record(script) if told[0] is Kind.BlockCached] == [[-1], [0, 1]]
