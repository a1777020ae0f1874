"""Covering sets: few rows of options that together hold every combination asked for, the same each time.

Faults of a kernel come from two or three options that meet, seldom from more. So not every product of all options is
compiled, but rows in which every pair of values (and every triple where asked) occurs at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product

Value = str | int | bool
Row = dict[str, Value]
Combination = tuple[tuple[str, Value], ...]


def covering_rows(
    options: Mapping[str, Sequence[Value]],
    interactions: Iterable[Sequence[str]],
    allowed: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:
    """Rows with a value for every option, so that for each interaction every allowed combination of values occurs.

    `allowed` is asked about parts of rows too, and may say yes as long as it cannot tell.
    """

    def possible(row: Row) -> bool:
        """Whether a whole row can have this part."""
        if not allowed(row):
            return False
        name = next((name for name in options if name not in row), None)
        return name is None or any(possible({**row, name: value}) for value in options[name])

    missing = _combinations(options, sorted(interactions, key=len, reverse=True), possible)
    used: Counter[tuple[str, Value]] = Counter()
    rows: list[Row] = []
    while missing:
        row: Row = dict(next(iter(missing)))  # the largest interactions first: the smaller fit beside them
        for name in options:
            if name not in row:
                row[name] = _best_value(name, options[name], row, missing, used, possible)
        for combination in [c for c in missing if row.items() >= set(c)]:
            del missing[combination]
        used.update(row.items())
        rows.append({name: row[name] for name in options})
    return rows


def all_pairs(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Every two of these options as an interaction."""
    return list(combinations(names, 2))


def _combinations(
    options: Mapping[str, Sequence[Value]], interactions: Iterable[Sequence[str]], possible: Callable[[Row], bool]
) -> dict[Combination, None]:
    """Everything that must occur, in order; a dict because a set has none."""
    return {
        tuple(zip(names, values, strict=True)): None
        for names in interactions
        for values in product(*(options[name] for name in names))
        if possible(dict(zip(names, values, strict=True)))
    }


def _best_value(
    name: str,
    values: Sequence[Value],
    row: Row,
    missing: Mapping[Combination, None],
    used: Counter[tuple[str, Value]],
    possible: Callable[[Row], bool],
) -> Value:
    """The value that completes the most missing combinations, among equals the one used least so far."""
    fitting = [value for value in values if possible({**row, name: value})]

    touched = [set(combination) for combination in missing if name in dict(combination)]

    def gain(value: Value) -> tuple[int, int]:
        items = {**row, name: value}.items()
        return sum(items >= combination for combination in touched), -used[name, value]

    return max(fitting, key=gain)
