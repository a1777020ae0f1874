"""Each fault goes wrong as its name says, by its seed alone, and the stream tells it and stays readable."""

from collections import Counter

import numpy as np
import pytest
from kvxray_engine.block_pool import BlockPool
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.faults.dice import Dice
from kvxray_engine.faults.fault import FAULTS, Fault, parse_fault, parse_faults
from kvxray_engine.faults.faulty_manager import MAX_LOST_SHARE, FaultyManager
from kvxray_engine.faults.faulty_pool import FaultyPool
from kvxray_engine.faults.placing import make_publisher
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.null_model import NullModel
from kvxray_engine.scheduler import Scheduler
from kvxray_engine.stream.publisher import Publisher
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, RequestStatus

from tests.engine.faulty_world import FaultyWorld

OF_CACHE = [name for name in FAULTS if not name.endswith("-messages") and name != "frozen-publisher"]


def rows_of(world: FaultyWorld, kind: Kind, cause: Cause) -> int:
    """Rows of this kind and cause in all of the stream."""
    columns = [message.columns for message in world.messages]
    return sum(int(one.n[(one.kind == kind) & (one.cause == cause)].sum()) for one in columns)


def status_of(world: FaultyWorld, holder: int) -> RequestStatus:
    seen = world.fold.requests.get(holder)
    assert seen is not None
    return seen.status


def leaked(world: FaultyWorld) -> Counter[tuple[int, int]]:
    """Holds of those who ended, as the stream tells them."""
    living = {request.ordinal for request in world.engine.scheduler.requests()}
    blocks, holders = world.fold.holds()
    pairs = zip(blocks.tolist(), holders.tolist(), strict=True)
    return Counter(pair for pair in pairs if pair[1] not in living)


def test_with_no_fault_no_faulty_object_is_there() -> None:
    engine = LLMEngine(NullModel(32, 4))
    publisher = make_publisher((), Recorder(), engine.descriptor(), "s", "inproc://events", "inproc://replay")
    made = engine.pool, engine.manager, engine.scheduler, publisher
    assert [type(one) for one in made] == [BlockPool, KVCacheManager, Scheduler, Publisher]
    publisher.close()


def test_a_world_without_faults_breaks_no_law_and_leaks_nothing() -> None:
    world = FaultyWorld().run(600)
    assert not world.broken
    assert not leaked(world)
    assert world.engine.scheduler.num_preemptions, "the world is meant to be short of blocks"
    world.engine.check_integrity()


@pytest.mark.parametrize("name", OF_CACHE)
def test_the_same_seed_goes_wrong_the_same_way_and_another_another_way(name: str) -> None:
    runs = [FaultyWorld(Fault(name, 0.3, seed)).run(250) for seed in (1, 1, 2)]
    first, again, other = (
        [(one.columns.kind.tolist(), one.columns.blk.tolist()) for one in run.messages] for run in runs
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", OF_CACHE)
def test_all_chances_that_come_before_it_pass(name: str) -> None:
    world, sound = FaultyWorld(Fault(name, 1.0, after=100_000)).run(250), FaultyWorld().run(250)
    assert [one.columns.blk.tolist() for one in world.messages] == [one.columns.blk.tolist() for one in sound.messages]
    assert not world.broken


@pytest.mark.parametrize("name", OF_CACHE)
def test_the_engine_lives_on_for_long_and_its_answers_are_what_they_were(name: str) -> None:
    """As far as a model without a cache can tell; the text of one with a cache: test_faults_text.py."""
    world = FaultyWorld(Fault(name, 0.3)).run(800)
    assert world.engine.pool.num_free == len(world.engine.pool.free_queue())
    assert min(world.engine.pool.ref_cnt) == 0
    assert (world.fold.ref == np.array(world.engine.pool.ref_cnt, np.uint32)).all(), "the stream tells other counts"
    assert len(world.answers) > 80


@pytest.mark.parametrize(("name", "status"), [("leak-on-abort", "aborted"), ("leak-on-error", "failed")])
def test_who_ends_that_way_keeps_every_block_and_nobody_else_does(name: str, status: str) -> None:
    world = FaultyWorld(Fault(name, 1.0)).run(120)
    found = leaked(world)
    assert found == Counter(world.engine.manager.leaked_holds)
    assert {status_of(world, holder) for _, holder in found} == {RequestStatus[status]}
    assert not world.broken
    world.engine.check_integrity()


def test_a_forgotten_dereference_keeps_what_was_shared_and_frees_the_rest() -> None:
    world = FaultyWorld(Fault("forgotten-dereference", 0.5)).run(200)
    found = leaked(world)
    assert found == Counter(world.engine.manager.leaked_holds)
    assert {status_of(world, holder) for _, holder in found} == {RequestStatus.finished}
    most = max(Counter(block for block, _ in found).values())
    assert most > 1, "a prompt that all share is kept by several of them"
    assert not world.broken
    world.engine.check_integrity()


def test_a_double_free_is_told_and_breaks_nothing_else() -> None:
    world = FaultyWorld(Fault("double-free", 0.3)).run(300)
    assert {law.kind for law in world.broken} == {"double_free"}
    assert not leaked(world)
    world.engine.check_integrity()


def test_a_reference_given_back_twice_is_told_and_takes_the_last_holder_below_zero() -> None:
    world = FaultyWorld(Fault("ref-underflow", 0.5)).run(600)
    assert {law.kind for law in world.broken} == {"ref_underflow"}
    below = [
        int(value)
        for message in world.messages
        for value in message.columns.val[np.flatnonzero(message.columns.val == -1)]
    ]
    assert below, "somebody lets go of what nobody is counted to hold"


def test_a_stale_hash_is_hit_by_prompts_though_the_stream_has_said_that_it_is_gone() -> None:
    world = FaultyWorld(Fault("stale-hash", 0.5))
    differs = hits_of_others = 0
    for _ in range(800):
        world.run(1)
        pool = world.engine.pool
        differs += pool.num_hashed != int(np.count_nonzero(world.fold.hash_ordinal != NO_ORDINAL))
        for request in world.engine.scheduler.running:
            carried = [pool.block_hash[block] for block in request.block_table[: request.num_cached_blocks]]
            hits_of_others += carried != request.block_hashes[: request.num_cached_blocks]
    assert differs, "the engine counts more hashes than it told"
    assert hits_of_others, "somebody reads what is not theirs"
    assert not leaked(world)
    assert {law.kind for law in world.broken} == {"stale_hash", "stale_hit"}
    assert all(law.block_hash for law in world.broken)


@pytest.mark.parametrize("seed", range(3))
def test_a_hit_of_a_stale_block_is_told_with_who_hits_and_to_whom_the_block_was_given(seed: int) -> None:
    """Nobody else is accused. What cannot be told apart is a block that has come to carry another hash with the same
    beginning, where nothing told of it follows.
    """
    world = FaultyWorld(Fault("stale-hash", 0.5, seed=seed), seed=seed).run(800)
    assert isinstance(world.engine.pool, FaultyPool)
    did = Counter((deed.holder, deed.blocks[0]) for deed in world.engine.pool.stale_hits)
    hits = [law for law in world.broken if law.kind == "stale_hit"]
    told = Counter((law.holder, law.block) for law in hits)
    assert told <= did
    assert did.total() > 50
    assert told.total() >= 0.95 * did.total()
    given = {(law.block, law.seq): (law.given.holder, law.given.seq) for law in hits if law.given is not None}
    assert len(given) == len(hits)
    assert given == {at: last_given(world, *at) for at in given}


def last_given(world: FaultyWorld, block: int, before: int) -> tuple[int, int]:
    """To whom a block was given last before an event, and by which event."""
    found = (NO_ORDINAL, -1)
    for message in world.messages:
        columns, seq = message.columns, message.header.seq0
        rows = iter(columns.blk.tolist())
        for kind, req, num in zip(columns.kind, columns.req, columns.n, strict=True):
            theirs = [next(rows) for _ in range(num)]
            if kind == Kind.BlockAllocated and block in theirs and seq + theirs.index(block) < before:
                found = (int(req), seq + theirs.index(block))
            seq += max(int(num), 1)
    return found


@pytest.mark.parametrize(("name", "kind"), [("stuck-pin", "pin"), ("expired-lease", "lease")])
def test_somebody_who_is_no_request_holds_blocks_for_good(name: str, kind: str) -> None:
    world = FaultyWorld(Fault(name, 0.2)).run(300)
    found = leaked(world)
    assert found == Counter(world.engine.manager.leaked_holds)
    names = [world.fold.requests.names[holder] for _, holder in found]
    assert {one.kind for one in names} == {kind}
    assert all(bool(one.deadline) == (kind == "lease") for one in names)
    assert rows_of(world, Kind.BlockReferenced, Cause[kind]) == len(found)
    world.engine.check_integrity()


@pytest.mark.parametrize("name", ["leak-on-abort", "leak-on-error", "stuck-pin", "expired-lease"])
def test_no_more_is_lost_than_the_engine_can_do_without(name: str) -> None:
    world = FaultyWorld(Fault(name, 1.0)).run(400)
    lost = {block for block, _ in world.engine.manager.leaked_holds}
    assert MAX_LOST_SHARE * 21 <= len(lost) < MAX_LOST_SHARE * 21 + 10
    before = len(world.answers)
    assert len(world.run(200).answers) > before


@pytest.mark.parametrize("name", ["leak-on-abort", "stuck-pin", "expired-lease"])
def test_a_dump_tells_who_holds_what_was_left_behind(name: str) -> None:
    world = FaultyWorld(Fault(name, 0.5)).run(200)
    dump = world.engine.dump_state()
    known = {request.ordinal for request in dump.requests}
    assert world.engine.manager.leaked_holds
    assert {holder for _, holder in dump.holds} <= known
    anew = type(world.fold)(world.engine.descriptor(), known=False)
    anew.replace_from_dump(dump, world.recorder.next_wire_seq - 1)
    assert [one.tolist() for one in anew.holds()] == [one.tolist() for one in world.fold.holds()]
    anew.check_integrity()


def test_what_a_request_failed_to_compute_is_not_kept_for_prompts_to_hit() -> None:
    """Its blocks stay, their hashes do not: nothing was written to them."""
    engine = LLMEngine(NullModel(32, 4), EngineConfig(faults=(Fault("leak-on-error", 1.0),)))
    assert isinstance(engine.manager, FaultyManager)
    world = FaultyWorld(Fault("leak-on-error", 1.0))

    def fail(batch):
        raise RuntimeError("no step")

    world.engine.model.execute = fail  # type: ignore[method-assign]
    world.run(1)
    assert world.engine.manager.leaked_holds
    assert world.engine.pool.num_hashed == 0
    world.engine.check_integrity()


def test_all_faults_at_once_are_survived() -> None:
    world = FaultyWorld(*(Fault(name, 0.1) for name in OF_CACHE)).run(800)
    assert len(world.answers) > 80
    assert isinstance(world.engine.pool, FaultyPool)
    assert {law.kind for law in world.broken} == {"ref_underflow", "double_free", "stale_hash", "stale_hit"}


def test_dice_fall_by_rate_and_seed_and_count() -> None:
    dice, again = Dice(Fault("stuck-pin", 0.25, seed=3)), Dice(Fault("stuck-pin", 0.25, seed=3))
    falls = [dice.falls() for _ in range(4000)]
    assert falls == [again.falls() for _ in range(4000)]
    assert 850 < dice.happened == sum(falls) < 1150
    assert dice.chances == 4000


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_asked_for_by_name_and_says_itself_back(name: str) -> None:
    assert parse_fault(name) == Fault(name, FAULTS[name].rate)
    fault = parse_fault(f"{name}:after=7,rate=0.125,seed=2")
    assert fault == Fault(name, 0.125, 2, 7)
    assert parse_fault(str(fault)) == fault
    assert name in fault.notice


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["leek-on-abort"], "no fault called 'leek-on-abort': choose one of leak-on-abort, "),
        ([""], "no fault called ''"),
        (["double-free:rate=0"], "above 0, at most 1"),
        (["double-free:rate=1.5"], "above 0, at most 1"),
        (["double-free:rate=nan"], "above 0, at most 1"),
        (["double-free:rate=-0.1"], "above 0, at most 1"),
        (["double-free:rate=often"], "rate is a share such as 0.1"),
        (["double-free:seed=1.5"], "seed and after are whole numbers"),
        (["double-free:seed=-1"], "whole numbers from 0"),
        (["double-free:after=-1"], "whole numbers from 0"),
        (["double-free:after=" + "9" * 5000], "whole numbers"),
        (["double-free:how=badly"], "write NAME:rate=0.1,seed=1,after=20"),
        (["double-free:rate"], "write NAME:rate=0.1,seed=1,after=20"),
        (["double-free:seed=1,seed=2"], "each once"),
        (["stuck-pin", "stuck-pin:rate=0.5"], "asked for twice"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_in_one_sentence(texts: list[str], told: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_faults(texts)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_lets_go_of_what_it_holds_is_not_blamed_for_a_count_below_zero() -> None:
    world = FaultyWorld(Fault("ref-underflow", 0.5)).run(600)
    blamed = {(law.block, law.holder) for law in world.broken if law.holder != NO_ORDINAL}
    assert any(law.holder == NO_ORDINAL for law in world.broken), "the last holder's own release was never told"
    assert blamed == {
        (block, deed.holder)
        for ending in world.engine.manager.endings
        for deed in ending.dice.deeds
        for block in deed.blocks
    }
