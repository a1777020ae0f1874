"""The conformance suite can fail: a bug planted in any kernel makes some of its cases fail.

Each bug is one change of the source in a copy of the package, which a process of its own (`forked_suite`) takes in
place of ours. It runs the case that is named beside the bug; the same cases pass in an unchanged copy.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import kvxray_kernels
import pytest

from tests.kernels.conformance_cases import CASES, every_kernel

ROOT = Path(__file__).parents[2]
SUITE = "tests/kernels/test_conformance.py"


def attention(**wanted: str) -> str:
    """The smallest case of Triton with these options."""
    fitting = [case for case in CASES if all(getattr(case, name) == value for name, value in wanted.items())]
    case = min(fitting, key=lambda case: (case.head_dim * case.block_size, case.group))
    return f"test_attention_agrees_with_the_reference[triton-{case}]"


@dataclass(frozen=True)
class Bug:
    name: str
    kernels: tuple[str, ...]  # that are wrong by it
    file: str  # of triton_kernels
    right: str
    wrong: str
    case: str


BUGS = [
    Bug(
        "wrong mask: a query sees the next token",
        ("paged_prefill_kernel",),
        "paged_prefill.py",
        "first_position + row // GROUP, -1)",
        "first_position + row // GROUP + 1, -1)",
        attention(batch="chunks", cache="float32"),
    ),
    Bug(
        "wrong mask: a window one token too wide",
        ("cascade_kernel",),
        "cascade.py",
        "tl.maximum(context_len - window, 0)",
        "tl.maximum(context_len - window - 1, 0)",
        attention(batch="shared", variant="wide_window"),
    ),
    Bug(
        "wrong scale: values take the scales of keys",
        ("paged_decode_kernel", "paged_prefill_kernel", "cascade_kernel"),
        "attend_span.py",
        "value_ptr, value_scale_ptr, heads, inside,\n            ITEMS",
        "value_ptr, key_scale_ptr, heads, inside,\n            ITEMS",
        attention(batch="ragged", cache="int4-float16"),
    ),
    Bug(
        "off-by-one block: a tile looks up the block of the token before",
        ("paged_decode_kernel", "paged_prefill_kernel", "cascade_kernel"),
        "attend_span.py",
        "table_ptr + positions // BLOCK_SIZE",
        "table_ptr + tl.maximum(positions - 1, 0) // BLOCK_SIZE",
        attention(batch="ragged", cache="float32"),
    ),
    Bug(
        "stale tail: the last block is read to its end",
        ("paged_decode_kernel",),
        "paged_decode.py",
        "stop = tl.minimum(start + tokens_each, context_len)",
        "stop = tl.minimum(start + tokens_each, tl.cdiv(context_len, BLOCK_SIZE) * BLOCK_SIZE)",
        attention(batch="ragged", cache="float32"),
    ),
    Bug(
        "dropped split: half of them are merged",
        ("merge_splits_kernel",),
        "merge_splits.py",
        "    num_live = own_slots\n",
        "    num_live = own_slots // 2\n",
        attention(batch="split", variant="plain"),
    ),
    Bug(
        "dropped split: all splits of a prefix leave their result in one place",
        ("cascade_kernel",),
        "cascade.py",
        "first_slot + split, slots",
        "first_slot, slots",
        attention(batch="shared", variant="plain"),
    ),
    Bug(
        "wrong sum: every split counts one weight too many",
        ("paged_decode_kernel",),
        "attend_span.py",
        "tl.store(sums_ptr + rows, total,",
        "tl.store(sums_ptr + rows, total + 1.0,",
        attention(batch="split", variant="sinks"),
    ),
    Bug(
        "a token's values are its keys",
        ("store_kv_kernel",),
        "store_kv.py",
        "write_heads(v, v_head_stride,",
        "write_heads(k, k_head_stride,",
        "test_writing_stores_what_the_rules_say_and_slot_minus_one_writes_nothing[float16-triton]",
    ),
    Bug(
        "wrong scale: int8 by 128",
        ("store_kv_kernel", "quantise_kernel"),
        "rows.py",
        "tl.div_rn(largest, 127.0)",
        "tl.div_rn(largest, 128.0)",
        "test_rows_become_what_the_cache_would_hold_and_come_back[int8]",
    ),
    Bug(
        "the minimum of int4 is left out",
        ("dequantise_kernel",),
        "dequantise.py",
        "(packed >> 4).to(tl.float32) * scale + minimum",
        "(packed >> 4).to(tl.float32) * scale",
        "test_rows_become_what_the_cache_would_hold_and_come_back[int4]",
    ),
    Bug(
        "off-by-one block: the end of a block stays behind",
        ("copy_blocks_kernel",),
        "copy_blocks.py",
        "mask=word < WORDS), mask=word < WORDS)",
        "mask=word < WORDS - 1), mask=word < WORDS - 1)",
        "test_blocks_are_copied_in_every_layer_and_sources_are_read_first[float32-triton]",
    ),
]


def copy_of_package(folder: Path, bug: Bug | None) -> Path:
    shutil.copytree(Path(kvxray_kernels.__file__).parent, folder / "kvxray_kernels")
    if bug is not None:
        file = folder / "kvxray_kernels" / "triton_kernels" / bug.file
        source = file.read_text()
        assert source.count(bug.right) == 1, f"{bug.file} has changed: plant the bug anew"
        file.write_text(source.replace(bug.right, bug.wrong))
    return folder


@dataclass(frozen=True)
class Result:
    returncode: int
    said: str


def run_suite(jobs: list[tuple[Path, list[str]]]) -> list[Result]:
    """What pytest answered and said for each copy of the package and its cases."""
    work = [(str(copy), [f"{SUITE}::{case}" for case in cases], str(copy / "said")) for copy, cases in jobs]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("forked_suite.py")],
        input=json.dumps(work),
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return [Result(code, Path(job[2]).read_text()) for code, job in zip(json.loads(done.stdout), work, strict=True)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """By the name of a bug what its case said; all cases without any bug under the empty name."""
    jobs = {"": (None, sorted({bug.case for bug in BUGS})), **{bug.name: (bug, [bug.case]) for bug in BUGS}}
    copies = [(copy_of_package(tmp_path_factory.mktemp("package"), bug), cases) for bug, cases in jobs.values()]
    return dict(zip(jobs, run_suite(copies), strict=True))


def test_the_same_cases_pass_without_a_bug(results):
    assert results[""].returncode == 0, results[""].said
    assert f"{len({bug.case for bug in BUGS})} passed" in results[""].said


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug, results):
    assert results[bug.name].returncode == 1, results[bug.name].said
    assert "1 failed" in results[bug.name].said


def test_every_kernel_has_a_bug():
    assert {kernel for bug in BUGS for kernel in bug.kernels} == every_kernel()
