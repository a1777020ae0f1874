"""Evictions by cause, counted by the fold: what the events tell, however they come to it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.schema import Cause, Kind
from kvxray_engine.stream.undo import Undo

from benchmarks.measuring.model_engine import ModelEngine


@pytest.fixture(scope="module")
def life():
    """A life in which blocks are evicted for every cause, and what it was recounted to."""
    engine = ModelEngine(160, rows=96, seed=3, seldom=1.0)
    messages = [engine.step() for _ in range(60)]
    told = recounted([message.columns for message in messages])
    assert set(told) == {Cause.allocation, Cause.explicit, Cause.capacity}
    return engine.descriptor(), messages, told


def recounted(every: list[Columns]) -> Counter[Cause]:
    """Operation by operation."""
    told: Counter[Cause] = Counter()
    for columns in every:
        for kind, cause, num in zip(columns.kind, columns.cause, columns.n, strict=True):
            if kind == Kind.BlockEvicted:
                told[Cause(int(cause))] += int(num)
    return told


def by_cause(fold: BlockMap) -> dict[Cause, int]:
    assert fold.eviction_totals.sum() == fold.kind_totals[Kind.BlockEvicted]
    return {Cause(at): int(fold.eviction_totals[at]) for at in np.flatnonzero(fold.eviction_totals).tolist()}


def folded(descriptor, messages) -> BlockMap:
    fold = BlockMap(descriptor)
    for message in messages:
        fold.apply(message)
    return fold


def test_they_are_what_the_events_tell_alone_or_joined(life):
    descriptor, messages, told = life
    assert by_cause(folded(descriptor, messages)) == told
    assert by_cause(folded(descriptor, [join(messages)])) == told


def test_a_snapshot_carries_them_on(life):
    descriptor, messages, told = life
    fold = snapshot.load(snapshot.dump(folded(descriptor, messages[:30])))
    for message in messages[30:]:
        fold.apply(message)
    assert by_cause(fold) == told


def test_a_gap_takes_none_of_them_back_and_a_step_back_does(life):
    descriptor, messages, told = life
    fold = folded(descriptor, messages)
    fold.forget()
    assert by_cause(fold) == told
    undo, before = Undo(fold, messages[40]), fold.copy()
    fold.apply(messages[40])
    assert by_cause(fold) != told == by_cause(before)
    assert by_cause(undo.take_back(fold)) == told


def test_whoever_begins_anew_from_the_engine_s_lists_goes_on_counting(life):
    descriptor, messages, told = life
    fold = BlockMap(descriptor)
    fold.adopt_totals(folded(descriptor, messages))
    assert by_cause(fold) == told


def test_of_an_engine_that_has_not_counted_them_the_causes_are_not_told(life, monkeypatch):
    """Its snapshot says how many there were, and no more."""
    descriptor, messages, _ = life
    head_of = snapshot._head_of

    def as_before(*args):
        head = head_of(*args)
        head.eviction_totals = []
        return head

    monkeypatch.setattr(snapshot, "_head_of", as_before)
    fold = snapshot.load(snapshot.dump(folded(descriptor, messages)))
    assert not fold.eviction_totals.any()
    assert fold.kind_totals[Kind.BlockEvicted] == folded(descriptor, messages).kind_totals[Kind.BlockEvicted] > 0


@pytest.mark.parametrize("totals", [[-1], [2**63], [0] * 33])
def test_numbers_that_cannot_be_are_refused(life, monkeypatch, totals):
    descriptor, messages, _ = life
    head_of = snapshot._head_of

    def forged(*args):
        head = head_of(*args)
        head.eviction_totals = totals
        return head

    monkeypatch.setattr(snapshot, "_head_of", forged)
    data = snapshot.dump(folded(descriptor, messages[:3]))
    with pytest.raises(BadMessage, match=r"head of the snapshot"):
        snapshot.load(data)
