"""The engine as its clients see it: requests in, tokens out, aborts, limits, faults; and the story it tells."""

import threading
from collections.abc import Sequence

import pytest
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.faults.fault import Fault
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.step_batch import SamplingParams, ScheduledSequence
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Kind, RequestStatus


def make_engine(num_blocks: int = 33, recorder: Recorder | None = None, eos: frozenset[int] = frozenset(), **config):
    clock = VirtualClock()
    model = NullModel(num_blocks, 4, vocab_size=1000, max_model_len=100, eos_token_ids=eos, clock=clock)
    return LLMEngine(model, EngineConfig(**config), recorder, clock)


def new(request_id: str, prompt: Sequence[int] = (1, 2, 3, 4, 5), max_tokens: int = 6, **sampling) -> NewRequest:
    return NewRequest(request_id, list(prompt), SamplingParams(max_tokens=max_tokens, **sampling))


def run(engine: LLMEngine, max_steps: int = 1000) -> dict[str, list[int]]:
    """Steps until nothing is left to do; the tokens of each request."""
    tokens: dict[str, list[int]] = {}
    for _ in range(max_steps):
        if not engine.has_work:
            return tokens
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
        engine.check_integrity()
    raise AssertionError("the engine did not come to rest")


def test_a_request_runs_to_its_length_and_gives_everything_back() -> None:
    engine = make_engine()
    engine.add_request(new("a"))
    outputs = [output for _ in range(6) for output in engine.step()]
    assert [len(output.new_token_ids) for output in outputs] == [1] * 6
    assert [output.finish_reason for output in outputs] == [None] * 5 + [FinishReason.length]
    assert not engine.has_work
    assert (engine.pool.ref_sum, engine.pool.num_hashed) == (0, 2)
    engine.check_integrity()


def test_end_of_text_and_stop_tokens_end_a_request() -> None:
    engine = make_engine()
    engine.add_request(new("a", max_tokens=10))
    third = run(engine)["a"][2]
    engine = make_engine(eos=frozenset({third}))
    engine.add_request(new("a", max_tokens=10))
    assert len(run(engine)["a"]) == 3
    engine = make_engine(eos=frozenset({third}))
    engine.add_request(new("a", max_tokens=10, ignore_eos=True))
    assert len(run(engine)["a"]) == 10
    engine = make_engine()
    engine.add_request(new("a", max_tokens=10, stop_token_ids=(third,)))
    assert len(run(engine)["a"]) == 3


def test_a_sequence_ends_at_the_longest_the_model_reads() -> None:
    engine = make_engine(max_model_len=12)
    engine.add_request(new("a", prompt=range(8), max_tokens=50))
    assert len(run(engine)["a"]) == 4


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (new("a", prompt=[]), "empty prompt"),
        (new("a", prompt=range(100)), "limit of 100"),
        (new("a", prompt=[1000]), "from 0 to 999"),
        (new("a", prompt=[-1]), "from 0 to 999"),
        (new("a", max_tokens=0), "max_tokens"),
        (new("a" * 200), "at most 128 characters"),
    ],
)
def test_a_request_that_can_never_run_is_refused_in_one_sentence(request_: NewRequest, sentence: str) -> None:
    engine = make_engine()
    with pytest.raises(UserError, match=sentence):
        engine.add_request(request_)
    assert not engine.has_work


def test_an_id_in_use_is_refused_and_free_again_when_its_request_ended() -> None:
    engine = make_engine()
    engine.add_request(new("a"))
    with pytest.raises(UserError, match="in use"):
        engine.add_request(new("a"))
    run(engine)
    engine.add_request(new("a"))
    assert len(run(engine)["a"]) == 6


@pytest.mark.parametrize(("config", "sentence"), [({"max_model_len": 101}, "at most 100"), ({}, "")])
def test_limits_that_cannot_be_kept_are_refused(config: dict, sentence: str) -> None:
    if sentence:
        with pytest.raises(UserError, match=sentence):
            make_engine(**config)
    with pytest.raises(UserError, match="does not fit 4 blocks"):
        make_engine(num_blocks=5, max_model_len=20)
    assert make_engine(num_blocks=5).max_model_len == 16


def test_an_abort_frees_its_blocks_within_one_step() -> None:
    engine = make_engine()
    engine.add_request(new("a", max_tokens=50))
    engine.add_request(new("b", prompt=range(100, 110), max_tokens=50))
    engine.step()
    engine.abort_request("a")
    outputs = engine.step()
    assert [(output.request_id, output.finish_reason) for output in outputs] == [("a", FinishReason.abort), ("b", None)]
    assert engine.pool.ref_sum == 3
    engine.abort_request("b")
    engine.step()
    assert engine.pool.ref_sum == 0
    assert not engine.has_work


def test_an_abort_of_one_that_has_ended_or_never_was_is_ignored() -> None:
    engine = make_engine()
    engine.abort_request("nobody")
    assert not engine.has_work
    engine.add_request(new("a", max_tokens=1))
    engine.step()
    engine.abort_request("a")
    assert engine.step() == []


def test_a_request_aborted_before_its_first_step_has_arrived_and_ended() -> None:
    engine = make_engine()
    engine.add_request(new("a"))
    engine.abort_request("a")
    (output,) = engine.step()
    assert (output.finish_reason, output.new_token_ids, engine.pool.ref_sum) == (FinishReason.abort, [], 0)


def test_prefix_caching_and_preemption_change_no_token() -> None:
    prompts = {f"r{n}": [*range(8), *range(20 + n, 26 + n)] for n in range(6)}

    def texts(**more) -> dict[str, list[int]]:
        engine = make_engine(**more)
        for request_id, prompt in prompts.items():
            engine.add_request(new(request_id, prompt, max_tokens=20))
        tokens = run(engine)
        assert engine.pool.ref_sum == 0
        return tokens | {"preempted": [engine.scheduler.num_preemptions > 0]}

    roomy = texts(num_blocks=65)
    assert roomy.pop("preempted") == [False]
    for limits in ({"num_blocks": 14}, {"num_blocks": 14, "enable_prefix_caching": False, "max_num_batched_tokens": 9}):
        tight = texts(**limits)
        assert tight.pop("preempted") == [True]
        assert tight == roomy


class BrokenOnce(NullModel):
    """Fails in its second step."""

    steps = 0

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        self.steps += 1
        if self.steps == 2:
            raise RuntimeError("out of memory")
        return super().execute(batch)


def test_a_step_that_fails_ends_its_requests_and_caches_nothing_it_did_not_compute(caplog) -> None:
    engine = LLMEngine(BrokenOnce(33, 4, vocab_size=1000, max_model_len=100), EngineConfig(max_num_batched_tokens=8))
    engine.add_request(new("a", prompt=range(16)))
    engine.step()
    assert engine.pool.num_hashed == 2
    outputs = engine.step()
    assert [output.finish_reason for output in outputs] == [FinishReason.error]
    assert "step 2 failed" in caplog.text
    assert (engine.pool.ref_sum, engine.pool.num_hashed) == (0, 2), "the blocks of the second chunk are not cached"
    engine.check_integrity()
    engine.add_request(new("b"))
    assert len(run(engine)["b"]) == 6


def test_a_reset_waits_for_the_last_reference() -> None:
    engine = make_engine()
    engine.add_request(new("a"))
    engine.step()
    assert not engine.reset_prefix_cache()
    run(engine)
    assert engine.reset_prefix_cache()
    assert engine.pool.num_hashed == 0
    engine.check_integrity()


def test_threads_add_and_abort_while_the_engine_steps() -> None:
    engine = make_engine(num_blocks=65)

    def client(number: int) -> None:
        for turn in range(20):
            engine.add_request(new(f"{number}.{turn}", prompt=range(number, number + 9)))
            if turn % 3 == 0:
                engine.abort_request(f"{number}.{turn}")

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in clients:
        thread.start()
    ended = 0
    while ended < 80:
        engine.inbox.wait(timeout_s=0.01)
        ended += sum(output.finish_reason is not None for output in engine.step())
        engine.check_integrity()
    for thread in clients:
        thread.join()
    assert engine.pool.ref_sum == 0


def recorded_kinds(recorder: Recorder) -> list[list[Kind]]:
    messages, _ = recorder.handover.take()
    columns = [to_message(message, "test", "once", hash_width=32).columns for message in messages]
    return [[Kind(kind) for kind in one.kind.tolist()] for one in columns]


@pytest.fixture
def recorder():
    recorder = Recorder(clock=VirtualClock(), handover=Handover())
    yield recorder
    recorder.handover.close()


def test_the_story_of_one_request(recorder: Recorder) -> None:
    engine = make_engine(recorder=recorder)
    engine.add_request(new("a", max_tokens=2))
    run(engine)
    assert recorded_kinds(recorder) == [
        [
            Kind.StepStarted,
            Kind.RequestArrived,
            Kind.RequestScheduled,
            Kind.BlockAllocated,
            Kind.BlockCached,
            Kind.BlockFilled,
            Kind.TokensGenerated,
            Kind.StepCompleted,
        ],
        [
            Kind.StepStarted,
            Kind.BlockFilled,
            Kind.TokensGenerated,
            Kind.RequestFinished,
            Kind.BlockFreed,
            Kind.BlockFreed,
            Kind.StepCompleted,
        ],
    ]


def test_an_idle_engine_tells_nothing(recorder: Recorder) -> None:
    engine = make_engine(recorder=recorder)
    assert engine.step() == []
    assert recorded_kinds(recorder) == []


def test_an_arrival_during_a_step_is_told_with_its_time(recorder: Recorder) -> None:
    class Visited(NullModel):
        def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
            tokens = super().execute(batch)
            if engine.step_count == 1:
                engine.add_request(new("b"))
            return tokens

    clock = VirtualClock()
    model = Visited(33, 4, vocab_size=1000, max_model_len=100, clock=clock, step_ns=3_000_000, token_ns=0)
    engine = LLMEngine(model, recorder=recorder, clock=clock)
    engine.add_request(new("a"))
    engine.step()
    (message,), _ = recorder.handover.take()
    arrivals = [
        a0
        for kind, a0 in zip(message.operations[::6], message.operations[4::6], strict=True)
        if kind == Kind.RequestArrived
    ]
    assert arrivals == [0, 3000]


def test_a_dump_tells_all_that_a_fold_must_know() -> None:
    engine = make_engine(faults=(Fault("leak-on-abort"),))
    for request_id in ("gone", "lives"):
        engine.add_request(new(request_id, max_tokens=50))
    engine.step()
    engine.abort_request("gone")
    engine.step()
    dump = engine.dump_state()
    assert dump.ref_cnt[:4] == [0, 2, 1, 1]
    assert sorted(dump.holds) == [(1, 0), (1, 1), (2, 0), (3, 1)]
    assert [(one.name.id, one.status) for one in dump.requests] == [
        ("lives", RequestStatus.running),
        ("gone", RequestStatus.aborted),
    ]
    assert (dump.high_water, dump.slots[:4], dump.next_req, dump.next_hash) == (4, [0, 4, 1, 2], 2, 1)


def test_a_dump_is_given_at_the_end_of_the_step_in_which_it_is_wanted(recorder: Recorder) -> None:
    engine = make_engine(recorder=recorder)
    engine.add_request(new("a"))
    recorder.wants_dump = True
    engine.step()
    messages, dump = recorder.handover.take()
    assert dump is not None
    wire_seq, state = dump
    assert wire_seq == messages[-1].wire_seq
    assert state.ref_cnt == engine.pool.ref_cnt
    assert not recorder.wants_dump


def test_the_same_requests_give_the_same_run() -> None:
    def story() -> tuple:
        recorder = Recorder(clock=VirtualClock(), handover=Handover())
        engine = make_engine(num_blocks=20, recorder=recorder)
        for number in range(8):
            engine.add_request(new(f"r{number}", prompt=range(number, number + 11), max_tokens=12))
        run(engine)
        messages, _ = recorder.handover.take()
        recorder.handover.close()
        return [
            (one.operations, one.many, one.blk, one.blk_inserted, one.val, one.val_inserted, one.hashes)
            for one in messages
        ], engine.clock.wall_ns()

    assert story() == story()
