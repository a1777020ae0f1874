"""Runs cases of the conformance suite over several copies of the package, each in a process of its own.

They are forks of one process that has imported what all of them need and nothing of the package: torch takes seconds
to import, a case less than one. Read from stdin: a list of [folder of the copy, its cases, file for what is said].
Written to stdout: the exit codes in that order.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import NoReturn

import pytest

AT_ONCE = 2
FOR_ALL = ("torch", "triton.runtime.interpreter")

Job = tuple[str, list[str], str]


def run_all(jobs: list[Job]) -> list[int]:
    codes: dict[int, int] = {}
    forks: list[int] = []
    for job in jobs:
        if len(forks) - len(codes) == AT_ONCE:
            await_one(codes)
        forks.append(fork(job))
    while len(codes) < len(forks):
        await_one(codes)
    return [codes[pid] for pid in forks]


def fork(job: Job) -> int:
    pid = os.fork()
    if pid == 0:
        run(*job)
    return pid


def await_one(codes: dict[int, int]) -> None:
    pid, status = os.wait()
    codes[pid] = os.waitstatus_to_exitcode(status)


def run(package: str, cases: list[str], said: str) -> NoReturn:
    file = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.path.insert(0, package)
    code = 3  # of pytest for an error inside
    try:
        code = int(pytest.main(["-p", "no:cacheprovider", *cases]))
        sys.stdout.flush()
    finally:  # never back into the code of the parent
        os._exit(code)


if __name__ == "__main__":
    for name in FOR_ALL:
        importlib.import_module(name)
    assert "kvxray_kernels" not in sys.modules, "a fork would test what its parent has imported, not its copy"
    json.dump(run_all(json.load(sys.stdin)), sys.stdout)
