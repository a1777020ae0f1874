"""Public bug reports as small inputs: `python -m tests.conformance FILE.jsonl… [--only T,E,S,M,K]`

Each case goes the product's own way: its batches are packed and decoded, put in order, folded and looked at, its pages
read, its framings answered over real sockets. A line for each thing that is not as the case expects, then how many
cases passed; exit 0, 1 on a miss, 2 on bad input.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.answers import SETTINGS, answer
from tests.conformance.case import Case, NotBuilt, read_cases
from tests.conformance.expectations import agrees, expected
from tests.conformance.world import World
from tests.engine.verdict import BadInput, Verdict, report


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--only", default="", help="letters that ids begin with, with commas between them")
    told = parser.parse_args(arguments)
    letters = {letter for letter in told.only.split(",") if letter}
    try:
        cases = [case for case in read_cases(told.files) if not letters or case.letter in letters]
        if not cases:
            raise BadInput(f"No case begins with {' or '.join(sorted(letters))}.")
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    return report(partial(judge, case) for case in cases)


def judge(case: Case) -> Verdict:
    """One case is passed or failed as a whole; a miss for each thing that is not as expected. Raises BadInput."""
    misses = [f"{case.id}: {miss}" for miss in _misses(case)]
    return Verdict(failed=1, misses=misses) if misses else Verdict(passed=1)


def _misses(case: Case) -> list[str]:
    asked = [key for key in case.expect if key not in SETTINGS]
    world = World(case)
    try:
        world.run()
    except NotBuilt as missing:
        return [f"{missing}: not built yet"]
    except BadInput as error:
        raise BadInput(f"Case {case.id}: {error}") from error
    except Exception as error:
        if case.expect.get("crash") is True:
            return []
        return [f"crash: {type(error).__name__}: {error}"]
    return [miss for key in asked for miss in _miss(world, key, case.expect[key])]


def _miss(world: World, key: str, told: Any) -> list[str]:
    try:
        wanted, got = expected(key, told), answer(world, key)
    except NotBuilt as missing:
        return [f"{missing}: not built yet"]
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"Case {world.case.id} expects of {key} what cannot be: {error}") from error
    return [] if agrees(key, wanted, got) else [f"{key}: expected {wanted}, got {got}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
