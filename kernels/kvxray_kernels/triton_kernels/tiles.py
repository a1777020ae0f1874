"""How work is cut for the attention kernels: rows and tokens of a tile, warps, stages and splits.

Pure functions of shapes, so that the compile job compiles exactly what is launched, and nothing is tuned at run time.
The sizes were found by compiling for sm_80, sm_90 and sm_100: no format spills registers in any of them.
No GPU has timed them yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

Kind = Literal["decode", "prefill", "cascade"]

MIN_SIDE: Final = 16
"""The least that a tensor core takes on a side."""

ALL_REGISTERS: Final = 255
"""Where many are needed anyway, the assembler must not spill a few to fit more programs on a processor."""

MAX_SPLITS: Final = 32
MIN_SPLIT_TILES: Final = 2
"""A split of fewer tiles costs more in its partial result and the merge than it saves."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """What one program works on at a time."""

    rows: int  # query rows: (query token, query head of one kv head) pairs, padded
    tokens: int  # of keys and values
    num_warps: int
    num_stages: int
    max_registers: int | None = None  # of a thread

    @property
    def options(self) -> dict[str, int | None]:
        """What Triton is told beside the kernel's own arguments."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, "maxnreg": self.max_registers}


# By kind and the largest padded head_dim, for queries of two bytes and of four; more rows where a group has more.
TWO_BYTES: Final[dict[tuple[Kind, int], Tiles]] = {
    ("decode", 64): Tiles(MIN_SIDE, 32, 4, 3),
    ("decode", 128): Tiles(MIN_SIDE, 32, 4, 3),
    ("decode", 256): Tiles(MIN_SIDE, 32, 4, 2),
    ("prefill", 64): Tiles(64, 32, 4, 2, ALL_REGISTERS),
    ("prefill", 128): Tiles(128, 32, 8, 2, ALL_REGISTERS),
    ("prefill", 256): Tiles(32, 32, 8, 2, ALL_REGISTERS),
    ("cascade", 64): Tiles(64, 64, 8, 2, ALL_REGISTERS),
    ("cascade", 128): Tiles(64, 32, 8, 2, ALL_REGISTERS),
    ("cascade", 256): Tiles(32, 32, 4, 2, ALL_REGISTERS),
}
FOUR_BYTES: Final[dict[tuple[Kind, int], Tiles]] = {
    ("decode", 64): Tiles(MIN_SIDE, 32, 4, 2, ALL_REGISTERS),
    ("decode", 128): Tiles(MIN_SIDE, 32, 4, 2, ALL_REGISTERS),
    ("decode", 256): Tiles(MIN_SIDE, 16, 8, 1, ALL_REGISTERS),
    ("prefill", 64): Tiles(32, 16, 8, 2, ALL_REGISTERS),
    ("prefill", 128): Tiles(MIN_SIDE, 32, 8, 1, ALL_REGISTERS),
    ("prefill", 256): Tiles(MIN_SIDE, 16, 8, 1, ALL_REGISTERS),
    ("cascade", 64): Tiles(32, 16, 8, 2, ALL_REGISTERS),
    ("cascade", 128): Tiles(MIN_SIDE, 32, 8, 1, ALL_REGISTERS),
    ("cascade", 256): Tiles(MIN_SIDE, 16, 8, 1, ALL_REGISTERS),
}


def padded(items: int) -> int:
    """A tile's side: a power of two, at least what a tensor core takes."""
    return max(MIN_SIDE, 1 << (items - 1).bit_length())


def tiles_for(kind: Kind, dtype: torch.dtype, head_dim: int, group: int) -> Tiles:
    """`dtype` is of queries; `group` is the number of query heads of one kv head.

    The cache's format makes no difference: it is widened to the dtype of queries before it is multiplied.
    """
    assert head_dim <= 256, "wider heads would not fit the registers"
    chosen = (FOUR_BYTES if dtype.itemsize == 4 else TWO_BYTES)[kind, max(64, padded(head_dim))]
    return replace(chosen, rows=max(chosen.rows, padded(group)))


def num_splits(programs: int, longest: int, tile_tokens: int, processors: int) -> int:
    """Into how many parts to cut each context, so that every processor has two programs.

    `programs` is how many there are without splitting, `longest` the tokens of the longest context.
    """
    wanted = -(-2 * processors // max(programs, 1))
    worthwhile = -(-longest // (MIN_SPLIT_TILES * tile_tokens))
    return max(1, min(wanted, worthwhile, MAX_SPLITS))
