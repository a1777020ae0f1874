"""Fifty thousand spoiled payloads: a batch, or `BadBatch`, and nothing else."""

from __future__ import annotations

import pytest

from tests.backend.foreign.mutated import MSGPACK, main, outcome_of, run


@pytest.mark.parametrize("seed", [11, 12, 13, 14, 15])
def test_nothing_that_is_spoiled_gets_further_than_an_oddity(seed: int) -> None:
    outcomes, faults = run(10_000, seed)
    assert not faults, "\n".join(faults[:5])
    assert outcomes["refused"] > 1_000
    assert outcomes["odd"] > 1_000
    assert outcomes["whole"] > 100


def test_the_runner_counts_what_came_out_and_says_how_far_the_memory_grew(capsys) -> None:
    assert main(["--count", "300", "--seed", "3"]) == 0
    assert capsys.readouterr().out.startswith("300 payloads, seed 3: ")


def test_the_runner_would_notice_another_error(monkeypatch) -> None:
    def crashes(payload):
        raise KeyError("not a sentence")

    outcome, fault = outcome_of(crashes, b"")
    assert outcome == "crashed"
    assert "KeyError" in fault
    assert outcome_of(MSGPACK(), b"\xc0") == ("refused", None)
