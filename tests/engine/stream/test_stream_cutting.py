"""Messages cut anywhere fold to what the whole folds to, and a fold taken back is where it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.block_map import BLOCK_COLUMNS, BlockMap
from kvxray_engine.stream.codec import Message, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.cutting import Divisible, Joined
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.schema import Kind
from kvxray_engine.stream.undo import Undo
from msgspec.structs import replace

from benchmarks.measuring.model_engine import ModelEngine

WARM, JOINED = 40, 12


@pytest.fixture(scope="module", params=[3, 4])
def world(request):
    """A fold some steps into a life, and the next steps joined to one message that knows what it was joined from."""
    engine = ModelEngine(160, rows=96, seed=request.param, seldom=1.0)
    before = BlockMap(engine.descriptor())
    for _ in range(WARM):
        before.apply(engine.step())
    messages = [engine.step() for _ in range(JOINED)]
    joined = Joined(
        np.array([one.columns.num_operations for one in messages]),
        np.array([len(one.header.names) for one in messages]),
        np.array([len(one.columns.hashes) // 32 for one in messages]),
        np.array([one.header.step for one in messages]),
    )
    return before, messages, Divisible(join(messages), joined)


def everything(state):
    names = (*BLOCK_COLUMNS, "state", "kind_totals", "eviction_totals")
    numbers = ("step", "t_ns", "next_seq", "next_wire_seq", "generated_tokens", "computed_tokens", "queried_tokens")
    return {
        **{name: getattr(state, name).tolist() for name in names},
        **{name: getattr(state, name) for name in numbers},
        "counts": state.counts(),
        "holds": [column.tolist() for column in state.holds()],
        "requests": state.requests.rows.tolist(),
        "names": dict(state.requests.names),
        "hashes": {int(one): state.hash_bytes(int(one)) for one in state.ordinals_carried()},
    }


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_parts_fold_to_what_the_whole_folds_to(world, data):
    before, _, divisible = world
    whole, cut = before.copy(), before.copy()
    whole.apply(divisible.message)
    inner = data.draw(st.sets(st.integers(1, divisible.num_events - 1), max_size=6))
    places = [0, *sorted(inner), divisible.num_events]
    for begin, end in zip(places, places[1:], strict=False):
        part = divisible.part(begin, end)
        assert part.columns.num_events == part.header.n == end - begin
        cut.apply(part)
        cut.check_integrity()
    assert everything(cut) == everything(whole)


def test_a_cut_between_messages_is_the_messages_themselves(world):
    before, messages, divisible = world
    one_by_one, cut = before.copy(), before.copy()
    begin = 0
    assert divisible.message_ends.tolist() == np.cumsum([one.header.n for one in messages]).tolist()
    for message, end in zip(messages, divisible.message_ends.tolist(), strict=True):
        one_by_one.apply(message)
        cut.apply(divisible.part(begin, end))
        begin = end
        assert everything(cut) == everything(one_by_one)


def test_a_step_s_results_keep_their_time_when_its_end_is_cut_off():
    engine = ModelEngine(64, rows=32)
    message = engine.step()
    whole, cut = BlockMap(engine.descriptor()), BlockMap(engine.descriptor())
    whole.apply(message)
    assert message.columns.kind[-1] == Kind.StepCompleted
    cut.apply(Divisible(message).part(0, message.header.n - 1))
    assert cut.requests.rows["first_token_ns"].tolist() == whole.requests.rows["first_token_ns"].tolist()


def test_a_message_without_events_is_a_part_of_itself():
    engine = ModelEngine(64, rows=32)
    header = replace(engine.step().header, type="descriptor", n=0, descriptor=encode_descriptor(engine.descriptor()))
    message = Message(header, Columns.empty())
    assert Divisible(message).part(0, 0) is message


@given(end=st.integers(1, 10**6), cleared=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_fold_taken_back_is_where_it_was_and_goes_on_as_before(world, end, cleared):
    before, _, divisible = world
    message = divisible.message
    if cleared:
        kind = np.where(message.columns.kind == Kind.RequestArrived, Kind.CacheCleared, message.columns.kind)
        message = Message(message.header, replace_kind(message.columns, kind.astype(np.uint8)))
    state = before.copy()
    undo = Undo(state, message)
    for upto in (end % divisible.num_events + 1, divisible.num_events):
        state.apply(Divisible(message, divisible._joined).part(0, upto))
        state = undo.take_back(state)
        state.check_integrity()
        assert everything(state) == everything(before)
    state.apply(message)
    again = before.copy()
    again.apply(message)
    assert everything(state) == everything(again)


def replace_kind(columns, kind):
    a0 = np.where(kind == Kind.CacheCleared, 0, columns.a0).astype(np.uint32)
    return Columns(
        kind, columns.cause, columns.req, columns.n, a0, columns.a1, columns.blk, columns.val, columns.hashes
    )
