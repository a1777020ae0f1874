"""What many ask at once is made once, and anew once it is old."""

from __future__ import annotations

import threading

import pytest
from kvxray_backend.kept_answers import MAX_KEPT, KeptAnswers


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_kept_for_a_while_and_then_made_anew() -> None:
    clock, made = Clock(), list[str]()
    kept = KeptAnswers[int](1.0, clock)

    def ask(now: float, asked: str) -> int:
        def make() -> int:
            made.append(asked)
            return len(made)

        clock.now = now
        return kept.get(asked, make)

    answers = [ask(0.0, "a"), ask(0.9, "a"), ask(0.9, "b"), ask(1.0, "a"), ask(1.5, "b")]
    assert made == ["a", "b", "a"]
    assert answers == [1, 1, 2, 3, 2]


def test_a_failure_is_not_kept() -> None:
    kept = KeptAnswers[int](1.0, Clock())
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 7) == 7


def test_who_asks_the_same_meanwhile_waits_for_it() -> None:
    kept, begun, go_on, made = KeptAnswers[int](60.0), threading.Event(), threading.Event(), list[int]()

    def make() -> int:
        made.append(1)
        begun.set()
        assert go_on.wait(30)
        return 5

    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(kept.get("a", make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert (answers, made) == ([5] * 4, [1])


def test_only_the_newest_are_kept() -> None:
    kept = KeptAnswers[int](60.0, Clock())
    for number in range(MAX_KEPT + 1):
        kept.get(number, lambda: 0)
    assert kept.get(MAX_KEPT, lambda: 1) == 0
    assert kept.get(0, lambda: 1) == 1
