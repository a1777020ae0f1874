"""Many engines followed without sockets: whatever comes is told as a finding, bounded, and the rest of it is kept."""

from __future__ import annotations

import random

import pytest
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_list import MAX_OF_A_KIND
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.sources.foreign import followed_source, interning, offline
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.told import Batch, Hash, Moved, Place, Removed, Stored, Told

from tests.backend.foreign.mutated import IN_BYTES, IN_PARTS
from tests.backend.foreign.payloads import RECORDINGS, frames, packed, removed, stored

SECOND = 1_000_000_000
TOPIC = b"kv-events"
GPU, CPU = Place("GPU"), Place("CPU")


class World:
    """A session, and batches with numbers that go on."""

    def __init__(self, **options: object) -> None:
        self.session = OfflineSession(b"key", **options)  # type: ignore[arg-type]
        self.seq = 0

    def feed(self, payload: bytes, *, now_s: float = 0.0, seq: int | None = None, engine: str = "e") -> None:
        self.session.feed(engine, TOPIC, self.seq if seq is None else seq, payload, round(now_s * SECOND))
        self.seq = (self.seq if seq is None else seq) + 1
        self.session.check_integrity()

    def batch(self, *events: Told) -> None:
        batch = Batch(float(self.seq), 0, events, digest=self.seq.to_bytes(16, "big"))
        self.session.feed_batch("e", TOPIC, self.seq, batch, b"", 0)
        self.seq += 1
        self.session.check_integrity()

    @property
    def source(self) -> FollowedSource:
        (source,) = self.session.sources
        return source

    def kinds(self) -> list[str]:
        return [finding.kind for finding in self.session.findings()]

    def one(self, kind: str) -> Finding:
        (found,) = [finding for finding in self.session.findings() if finding.kind == kind]
        return found

    def resident(self, medium: str = "GPU") -> list[int]:
        fold = self.source.fold
        names = [pool.name.upper() for pool in fold.descriptor.pools]
        ordinals = fold.residents(names.index(medium) << 8) if medium in names else []
        return [int.from_bytes(fold.hash_bytes(int(ordinal)) or b"", "big") for ordinal in ordinals]


def h(*numbers: int) -> tuple[Hash, ...]:
    return tuple(number.to_bytes(8, "big") for number in numbers)


def test_what_is_no_batch_leaves_a_hole_that_is_told_and_not_taken_for_a_lost_number() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    world.feed(b"\xff not a batch")
    world.feed(packed(stored((2,), parent=1)))
    assert world.kinds() == ["unknown_or_partial_event"]
    assert world.one("unknown_or_partial_event").severity == "warning"
    assert (world.resident(), world.source.confidence) == ([1, 2], "degraded")


def test_what_is_no_batch_on_a_stream_of_several_ranks_is_nobodys() -> None:
    world = World()
    world.feed(packed(stored((1,)), rank=0))
    world.feed(packed(stored((2,)), rank=1), seq=0)
    world.feed(b"nonsense", seq=1)
    assert world.session.num_unplaced == 1
    assert [source.name for source in world.session.sources] == ["e", "e/1"]


def test_a_batch_that_cannot_be_told_is_left_out_and_the_next_one_is_not() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    world.feed(packed(stored((5,), group_idx=199)))
    world.feed(packed(stored((2,), parent=1)))
    assert "at most 128 are followed" in world.one("unknown_or_partial_event").sentence
    assert (world.resident(), world.source.confidence) == ([1, 2], "degraded")


def test_an_epoch_that_is_full_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.feed(packed(stored((1, 2, 3))))
    monkeypatch.setattr(interning, "MAX_HASHES", 3)
    world.feed(packed(stored((4,), parent=3)))
    assert (world.source.epoch, world.resident(), world.source.confidence) == (2, [4], "degraded")
    assert world.one("orphan_parent").severity == "info"


def test_findings_of_a_kind_are_bounded_and_still_counted() -> None:
    world = World()
    for first in range(0, 1200, 100):
        world.feed(packed(removed(*range(first, first + 100))))
    assert len(world.source.findings) == MAX_OF_A_KIND
    assert world.source.findings.times["remove_unknown"] == 1200


def test_what_is_found_again_is_one_finding_with_a_count() -> None:
    world = World()
    for _ in range(3):
        world.feed(packed(removed(7), ts=float(world.seq)))
    found = world.one("remove_unknown")
    assert (found.numbers["times"], found.time_ns, found.subjects.hashes) == (3, 0, ("0000000000000007",))


def test_a_gap_is_over_when_all_of_it_came_after_all() -> None:
    world = World(hold_for_replay=False)
    for seq in (0, 3):
        world.feed(packed(stored((seq + 1,)), ts=float(seq)), seq=seq)
    world.feed(packed(stored((3,)), ts=2.0), seq=2)
    assert world.one("seq_gap").state == "open"
    world.feed(packed(stored((2,)), ts=1.0), seq=1)
    gap = world.one("seq_gap")
    assert gap.state == "ended"
    assert gap.sentence.startswith("Batches 1 to 2 came")


def test_a_restart_forgets_what_was_cached_and_what_its_hashes_were_made_of() -> None:
    world = World()
    world.feed(packed(stored((1, 2)), ts=1.0), engine="a")
    world.feed(packed(stored((91, 92)), ts=1.0), seq=0, engine="b")
    assert world.kinds() == ["hash_seed_mismatch"]
    world.feed(packed(stored((1, 2)), ts=9.0), seq=0, engine="b")
    assert world.kinds() == ["engine_restart"]
    assert [source.epoch for source in world.session.sources] == [1, 2]


def test_a_stream_that_is_heard_again_is_stale_no_more() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    world.session.advance(59 * SECOND)
    assert world.source.confidence == "exact"
    world.session.advance(100 * SECOND)
    assert world.source.confidence == "stale"
    assert world.one("stale_stream").certainty == "derived"
    world.feed(packed(stored((2,))), now_s=130.0)
    stale = world.one("stale_stream")
    assert (stale.state, stale.sentence, world.source.confidence) == ("ended", "No batch came for 130 s.", "exact")


def test_an_engine_that_sleeps_is_silent_for_a_reason() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    page = 'vllm:engine_sleep_state{sleep_state="awake"} 0\nvllm:num_requests_waiting 3\n'
    world.session.take_page("e", parse_page(page.encode()), 90 * SECOND)
    world.session.advance(90 * SECOND)
    stale = world.one("stale_stream")
    assert (stale.severity, stale.certainty) == ("info", "exact")


def test_an_engine_without_work_is_idle_and_not_stale() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    world.session.advance(70 * SECOND)
    assert world.one("stale_stream").sentence == (
        "No batch came for 70 s; whether the engine works is not known: what is shown is as of the last one."
    )
    tell(world, running=0, at_s=80)
    world.session.advance(200 * SECOND)
    assert (world.one("stale_stream").state, world.source.confidence) == ("ended", "exact")


def test_an_engine_that_begins_to_work_has_a_minute_to_tell_of_it() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    tell(world, running=0, at_s=100)
    tell(world, running=1, at_s=110)
    world.session.advance(150 * SECOND)
    assert ("stale_stream" in world.kinds(), world.source.confidence) == (False, "exact")
    world.session.advance(161 * SECOND)
    assert (world.one("stale_stream").severity, world.source.confidence) == ("warning", "stale")


def test_an_engine_that_worked_without_a_word_stays_stale_when_it_rests() -> None:
    world = World()
    world.feed(packed(stored((1,))))
    tell(world, running=1, at_s=90)
    tell(world, running=0, at_s=95)
    assert (world.one("stale_stream").severity, world.source.confidence) == ("warning", "stale")
    world.feed(packed(stored((2,))), now_s=100.0)
    assert (world.one("stale_stream").state, world.source.confidence) == ("ended", "exact")


def tell(world: World, running: int, at_s: int) -> None:
    page = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
    world.session.take_page("e", parse_page(page.encode()), at_s * SECOND)
    world.session.advance(at_s * SECOND)


def test_hits_without_any_block_ever_told_of_are_of_another_engine() -> None:
    world = World()
    world.feed(packed())
    for at, hits in ((10, 5), (20, 900)):
        page = f"vllm:prefix_cache_queries_total {hits * 2}\nvllm:prefix_cache_hits_total {hits}\n"
        world.session.take_page("e", parse_page(page.encode()), at * SECOND)
    assert world.one("metrics_contradiction").numbers == {"hits": 895.0, "cached": 0.0}
    world.feed(packed(stored((1,)), removed(1)))
    assert "metrics_contradiction" not in world.kinds()


def test_more_sources_than_are_followed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MAX_SOURCES", 2)
    world = World()
    for rank in range(4):
        world.feed(packed(stored((rank + 1,)), rank=rank), seq=0)
    assert (len(world.session.sources), world.session.num_refused) == (2, 2)


def test_names_of_what_was_not_understood_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_source, "MAX_ODDITIES", 3)
    world = World()
    for number in range(9):
        world.feed(packed({"type": f"Odd{number}"}, {"type": "Odd0"}))
    assert world.source.oddities == {"Odd0": 10, "Odd1": 1, "Odd2": 1}
    assert {finding.severity for finding in world.session.findings()} == {"info"}


def test_a_removal_that_names_no_medium_is_looked_for_in_all() -> None:
    world = World()
    world.batch(Stored(h(1, 2, 3), None, 4, 12, GPU))
    world.batch(Moved(h(2), GPU, CPU))
    assert (world.resident(), world.resident("CPU")) == ([1, 3], [2])
    world.batch(Removed(h(3, 2), is_any_medium=True))
    assert (world.resident(), world.resident("CPU")) == ([1], [])
    assert world.kinds() == []


def test_where_a_hash_is_follows_from_the_events_of_the_same_batch_too() -> None:
    world = World()
    gone = Removed(h(5), is_any_medium=True)
    world.batch(Stored(h(5), None, 4, 4, GPU), Moved(h(5), GPU, CPU), gone, Stored(h(6), None, 4, 4, CPU))
    assert (world.resident(), world.resident("CPU"), world.kinds()) == ([], [6], [])
    world.batch(gone)
    assert world.kinds() == ["remove_unknown"]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_recording_of_a_real_engine_breaks_no_law(path) -> None:
    session = OfflineSession(b"key", store_semantics="copies")
    for seq, payload in enumerate(frames(path)):
        session.feed(path.name, TOPIC, seq, payload, seq)
    session.finish()
    session.check_integrity()
    # Where the pool is too small for what runs, blocks are thrown away too early, which no law forbids.
    assert {finding.kind for finding in session.findings()} <= {"sparse_group", "unreachable_resident", "thrash"}
    assert all(source.confidence == "exact" for source in session.sources)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_payloads_in_any_order_stop_nothing(seed: int) -> None:
    choose = random.Random(seed)
    whole = [payload for path in RECORDINGS for payload in frames(path)]
    session = OfflineSession(b"key", hold_for_replay=seed % 2 == 0)
    seq, begin = choose.choice([0, 5, 1 << 41, (1 << 64) - 3]), choose.randrange(len(whole))
    for number in range(40):
        payload = whole[(begin + number) % len(whole)]
        if choose.random() < 0.4:
            payload = choose.choice(choose.choice([IN_BYTES, IN_PARTS]))(payload, choose.choice(whole), False, choose)
        session.feed(choose.choice("aab"), TOPIC, seq, payload, number * SECOND)
        seq = max(0, seq + choose.choice([1, 1, 1, 2, 0, -1, 7])) % (1 << 64)
    session.advance(1_000 * SECOND)
    session.finish()
    session.check_integrity()
    assert {finding.source for finding in session.findings()} <= {source.name for source in session.sources}
    assert "stale_stream" in {finding.kind for finding in session.findings()}
