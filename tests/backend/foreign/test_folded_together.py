"""Batches that come in one turn are folded together, and nobody can tell by what comes of it."""

from __future__ import annotations

from random import Random

import pytest
from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.sources.foreign.batch_sequencer import BatchSequencer
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher
from kvxray_backend.sources.foreign.ordered_stream import Delivery
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.stream import residency_snapshot
from kvxray_engine.stream.residency_map import ResidencyMap

from tests.backend.foreign.payloads import CLEARED, RECORDINGS, frames, packed, removed, stored

SECOND = 10**9


def steps_of(payloads, *, lost=(), late=()):
    """As a sequencer tells them. lost: never come; late: come at the end, without anybody having waited."""
    sequencer, chains, steps = BatchSequencer(None, hold_for_replay=False), TokenChains(b"key"), []
    order = [seq for seq in range(len(payloads)) if seq not in {*lost, *late}] + list(late)
    for turn, seq in enumerate(order):
        heard = Heard(Publisher(0, b""), seq, payloads[seq], 1_800_000_000 * SECOND + turn * SECOND // 100)
        delivery = Delivery(decode_batch(payloads[seq], chains), heard)
        steps += sequencer.offer(seq, delivery, len(payloads[seq]), turn)
    return steps


def followed(turns):
    kept = []
    source = FollowedSource("s", NameFilter(b"key"), HashesByTokens(), record=kept.append)
    for turn in turns:
        source.take(*turn)
    source.check_integrity()
    return source, kept


def in_turns(steps, seed):
    choose, turns = Random(seed), []
    while steps:
        size = choose.randint(1, 40)
        turns.append(steps[:size])
        steps = steps[size:]
    return turns


def told(source, kept):
    """All that can be seen of it, but for the names of its lives, which are random."""
    findings = sorted(source.findings.all, key=lambda one: one.id)
    messages = [one.message.header.wire_seq for one in kept if hasattr(one, "message")]
    source.fold.incarnation = ""
    return residency_snapshot.dump(source.fold), findings, messages, [type(one) for one in kept]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".frames.jsonl.gz"))
def test_a_recording_comes_to_the_same_however_it_is_cut_into_turns(path):
    payloads = frames(path)
    middle = len(payloads) // 2
    steps = steps_of(payloads, lost={middle}, late=[middle + 2] if middle + 2 < len(payloads) else [])
    one_by_one = told(*followed([step] for step in steps))
    for seed in range(3):
        assert told(*followed(in_turns(steps, seed))) == one_by_one


def test_a_turn_of_plain_batches_is_one_fold(monkeypatch):
    folds = []
    apply = ResidencyMap.apply
    monkeypatch.setattr(ResidencyMap, "apply", lambda fold, message: folds.append(message) or apply(fold, message))
    payloads = [packed(stored([2 * n + 1, 2 * n + 2]), ts=1000.0 + n) for n in range(30)]
    source, _ = followed([steps_of(payloads)])
    assert len(folds) == 1
    assert len(source.fold.residents(0)) == 60


def test_a_fault_is_of_the_batch_in_which_it_happened():
    payloads = [packed(stored([n + 1]), ts=1000.0 + n) for n in range(10)]
    payloads[7] = packed(stored([8]), removed(99), ts=1007.0)
    source, _ = followed([steps_of(payloads)])
    (finding,) = source.findings.all
    assert (finding.kind, finding.seq0 >> 20) == ("remove_unknown", 7)
    assert finding.time_ns == 1007 * SECOND


def test_a_clear_and_what_was_lost_have_their_place_within_a_turn():
    payloads = [packed(stored([n + 1]), ts=1000.0 + n) for n in range(10)]
    payloads[4] = packed(CLEARED, ts=1004.0)
    source, _ = followed([steps_of(payloads, lost={6})])
    assert len(source.fold.residents(0)) == 4
    assert not source.fold.known
