"""What a compiled kernel costs, read from its machine code with the cuobjdump that comes with Triton."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# Instructions that multiply matrices: HMMA, IMMA, QMMA in a warp, HGMMA, IGMMA, QGMMA in four, UTCHMMA and kin in a
# whole block (sm_100). DMMA (float64) is no business of ours.
TENSOR_CORE = re.compile(r"^(?:[HIQ]G?MMA|UTC[A-Z]*MMA)$")
LOCAL = re.compile(r"^(?:LDL|STL)$")
# "        /*0010*/              @!P0 HMMA.16816.F32.BF16 R4, R8, R12, R4 ;     /* 0x... */"
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.M)
RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True, slots=True)
class CodeFigures:
    """One kernel's machine code in numbers."""

    registers: int  # of a thread
    stack: int  # bytes
    local: int  # bytes
    local_accesses: int  # instructions that read or write local memory
    tensor_core: tuple[tuple[str, int], ...]  # instructions by name


def read_cubin(cubin: bytes, tools: Path) -> CodeFigures:
    """`tools`: the folder that holds cuobjdump and nvdisasm."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return figures_of(*(_cuobjdump(tools, option, file.name) for option in ("-res-usage", "-sass")))


def figures_of(resources: str, code: str) -> CodeFigures:
    """From what cuobjdump says with -res-usage and -sass."""
    found = RESOURCES.search(resources)
    assert found, "cuobjdump tells registers, stack and local memory"
    opcodes = Counter(INSTRUCTION.findall(code))
    assert opcodes["EXIT"], "a kernel ends: code without an exit was not read rightly"
    tensor_core = sorted((name, count) for name, count in opcodes.items() if TENSOR_CORE.match(name))
    local_accesses = sum(count for name, count in opcodes.items() if LOCAL.match(name))
    registers, stack, local = map(int, found.groups())
    return CodeFigures(registers, stack, local, local_accesses, tuple(tensor_core))


def _cuobjdump(tools: Path, option: str, path: str) -> str:
    # It looks for nvdisasm on the PATH before its own folder.
    return subprocess.run(
        [tools / "cuobjdump", option, path], capture_output=True, text=True, check=True, env={"PATH": str(tools)}
    ).stdout
