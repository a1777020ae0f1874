"""Builds as a table of docs/kernels.md: a row for each kernel, cache format and chip, the worst of its variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.kernel_builds.builds import Build

BEGIN = "<!-- compiled kernels: written by python -m benchmarks.compile_kernels --docs -->"
END = "<!-- end of compiled kernels -->"
HEADER = (
    "| kernel | format | chip | variants | registers, at most | shared memory, at most | tensor-core instructions |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)

RowKey = tuple[str, str, int]
"""Kernel, cache format, chip."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """Of one kernel in one format on one chip: the worst that any variant takes."""

    kernel: str
    format: str
    arch: int
    variants: int
    registers: int
    shared: int
    stack: int
    local: int
    tensor_core: dict[str, int]  # instructions by name, of the variant with the fewest

    @property
    def key(self) -> RowKey:
        return (self.kernel, self.format, self.arch)

    def __str__(self) -> str:
        matrices = ", ".join(f"{count} {name}" for name, count in sorted(self.tensor_core.items())) or "none"
        size = f"{self.shared / 1024:.1f} KiB" if self.shared else "0"
        cells = (f"`{self.kernel}`", self.format, f"sm_{self.arch}", self.variants, self.registers, size, matrices)
        return "| " + " | ".join(map(str, cells)) + " |"


def table_rows(builds: Iterable[Build]) -> list[TableRow]:
    grouped: dict[RowKey, list[Build]] = {}
    for build in builds:
        if build.code:
            for name in build.formats:
                grouped.setdefault((build.kernel, name, build.arch), []).append(build)
    return [_row(key, grouped[key]) for key in sorted(grouped)]


def _row(key: RowKey, builds: Sequence[Build]) -> TableRow:
    codes = [build.code for build in builds if build.code]
    fewest = min(builds, key=lambda build: build.tensor_core_instructions).code
    return TableRow(
        *key,
        variants=len(builds),
        registers=max(code.registers for code in codes),
        shared=max(build.shared for build in builds),
        stack=max(code.stack for code in codes),
        local=max(code.local for code in codes),
        tensor_core=dict(fewest.tensor_core) if fewest else {},
    )


def with_table(document: str, rows: Iterable[TableRow], caption: str) -> str:
    """The document with its table replaced by these rows."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    table = "\n".join([HEADER, *map(str, rows)])
    return f"{before}{BEGIN}\n{caption}\n\n{table}\n{END}{after}"


def documented_rows(document: str) -> set[RowKey]:
    """Which rows its table has."""
    table = document.split(BEGIN)[1].split(END)[0]
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:4]] for line in table.splitlines() if line.startswith("| `")
    ]
    return {(kernel, name, int(chip.removeprefix("sm_"))) for kernel, name, chip in rows}
