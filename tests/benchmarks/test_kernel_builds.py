"""The compile job: which variants it takes, how it reads machine code, what it refuses, and that the docs say so.

Real compiles happen in a process of their own, since this one interprets kernels.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from benchmarks.kernel_builds.builds import MAX_SHARED, Build, misses_of
from benchmarks.kernel_builds.covering import all_pairs, covering_rows
from benchmarks.kernel_builds.cubin import CodeFigures, figures_of
from benchmarks.kernel_builds.table import BEGIN, END, documented_rows, table_rows, with_table
from benchmarks.kernel_builds.variants import ARCHS, FP8_SINCE, KERNELS, kernel_formats, variants_for

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "kernels.md").read_text()
ROWS = {
    (kernel, name, arch)
    for kernel in KERNELS
    for name in kernel_formats(kernel)
    for arch in ARCHS
    if name != "fp8_e4m3" or arch >= FP8_SINCE
}
CLEAN = CodeFigures(registers=96, stack=0, local=0, local_accesses=0, tensor_core=(("HMMA", 16),))
CODE = """
	code for sm_90
		Function : paged_decode_kernel
        /*0000*/                   LDC R1, c[0x0][0x28] ;                           /* 0x00000a00ff017b82 */
        /*0010*/               @P0 HMMA.16816.F32.BF16 R4, R8, R12, R4 ;            /* 0x000000000c04723c */
        /*0020*/              @!P1 LDL.LU R9, [R1+0x4] ;                            /* 0x0000040001097983 */
        /*0030*/                   STL [R1+0x4], R9 ;                               /* 0x0000040901007387 */
        /*0040*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24 ;   /* 0x00e0000008187df0 */
       /*10050*/              @UP0 UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], !UPT ; /* 0x00ff0004060075ea */
       /*10060*/                   FMUL R3, R3, R2 ;                                /* 0x0000000203037220 */
       /*10070*/                   EXIT ;                                           /* 0x000000000000794d */
"""
RESOURCES = " Function f:\n  REG:168 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:944 TEXTURE:0 SURFACE:0 SAMPLER:0\n"


def build(code: CodeFigures | None = CLEAN, **changes: object) -> Build:
    about = {
        "kernel": "paged_decode",
        "arch": 80,
        "formats": ("int8", "int4"),
        "variant": "head_dim 64",
        "seconds": 1.0,
    }
    return Build(**{**about, "wants_tensor_cores": True, "code": code, **changes})  # type: ignore[arg-type]


def test_a_covering_set_holds_every_pair_that_is_allowed_and_nothing_else() -> None:
    options = {"a": (1, 2, 3), "b": (1, 2, 3), "c": (True, False)}
    rows = covering_rows(options, all_pairs(options), lambda row: row.get("a") != 3 or row.get("b") != 3)
    told = {pair for row in rows for pair in combinations(sorted(row.items()), 2)}
    assert len(told) == 9 + 6 + 6 - 1
    assert not any(row["a"] == row["b"] == 3 for row in rows)
    assert len(rows) < 3 * 3 * 2 - 2


def test_a_pair_that_no_whole_row_can_have_is_not_asked_for() -> None:
    # b excludes both values of c, though each rule alone looks at two options only.
    options = {"a": (1,), "b": (1, 2), "c": (1, 2)}
    rows = covering_rows(options, [("a", "b")], lambda row: not (row.get("b") == 2 and row.get("c") in (1, 2)))
    assert [row["b"] for row in rows] == [1]


def test_every_kernel_meets_every_format_on_every_chip_and_few_variants_suffice() -> None:
    variants = variants_for(ARCHS)
    assert {(v.kernel, v.format, v.arch) for v in variants} == ROWS
    assert len(variants) <= 150
    assert variants == variants_for(ARCHS)


def test_every_kernel_that_is_launched_is_compiled() -> None:
    folder = ROOT / "kernels" / "kvxray_kernels" / "triton_kernels"
    launched = {name for path in folder.glob("*.py") for name in re.findall(r"(\w+)_kernel\[", path.read_text())}
    assert launched == set(KERNELS)


def test_machine_code_is_read_for_what_it_costs() -> None:
    tensor_core = (("HGMMA", 1), ("HMMA", 1), ("UTCHMMA", 1))
    assert figures_of(RESOURCES, CODE) == CodeFigures(168, 8, 0, 2, tensor_core)


def test_code_that_is_not_understood_is_no_clean_code() -> None:
    with pytest.raises(AssertionError, match="a kernel ends"):
        figures_of(RESOURCES, CODE.replace("EXIT", ""))


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (build(CodeFigures(96, 8, 0, 0, (("HMMA", 1),))), "spills: stack 8 bytes"),
        (build(CodeFigures(96, 0, 16, 0, (("HMMA", 1),))), "local memory 16 bytes"),
        (build(CodeFigures(96, 0, 0, 3, (("HMMA", 1),))), "3 accesses to it"),
        (build(CodeFigures(96, 0, 0, 0, ())), "has no tensor-core instruction"),
        (build(CodeFigures(256, 0, 0, 0, (("HMMA", 1),))), "takes 256 registers"),
        (build(CodeFigures(120, 0, 0, 0, ()), kernel="store_kv", wants_tensor_cores=False), "takes 120 registers"),
        (build(shared=MAX_SHARED[80] + 1), "bytes of shared memory"),
        (build(None, error="ValueError: no"), "does not compile: ValueError: no"),
    ],
)
def test_every_broken_rule_is_one_line(bad: Build, told: str) -> None:
    (line,) = misses_of(bad)
    assert told in line
    assert line.startswith(f"{bad.kernel} on sm_80")
    assert "[head_dim 64]" in line


def test_good_code_is_no_miss() -> None:
    assert misses_of(build()) == []
    assert misses_of(build(CodeFigures(40, 0, 0, 0, ()), kernel="store_kv", wants_tensor_cores=False)) == []


def test_a_row_of_the_table_tells_the_worst_of_its_variants() -> None:
    worse = CodeFigures(128, 0, 0, 0, (("HMMA", 8),))
    rows = table_rows([build(shared=2048), build(worse, formats=("int8",)), build(None, error="no")])
    assert [str(row) for row in rows] == [
        "| `paged_decode` | int4 | sm_80 | 1 | 96 | 2.0 KiB | 16 HMMA |",
        "| `paged_decode` | int8 | sm_80 | 2 | 128 | 2.0 KiB | 8 HMMA |",
    ]


def test_the_table_is_replaced_and_the_rest_of_the_page_stays() -> None:
    page = with_table(f"before\n{BEGIN}\nold\n{END}\nafter", table_rows([build()]), "caption")
    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert "old" not in page
    assert documented_rows(page) == {("paged_decode", "int8", 80), ("paged_decode", "int4", 80)}


def test_the_docs_name_every_kernel_in_every_format_on_every_chip() -> None:
    assert documented_rows(DOCS) == ROWS


def test_a_launch_is_caught_and_compiled_without_a_gpu(tmp_path: Path) -> None:
    program = (
        "from benchmarks.kernel_builds.job import build, tasks_for\n"
        "from benchmarks.kernel_builds.variants import Variant\n"
        "(task,) = tasks_for([Variant('store_kv', 90, 'bfloat16', 64, 16, 'bfloat16')] * 2)\n"
        "made = build(task)\n"
        "print(task.kernel, len(task.variants), made.error, made.code.registers > 0, made.code.stack)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["store_kv", "2", "None", "True", "0"], done.stderr


def test_an_interpreter_has_no_machine_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import compile_kernels

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("sys.argv", ["compile_kernels"])
    assert compile_kernels.main() == 2
    assert "TRITON_INTERPRET is set" in capsys.readouterr().err
