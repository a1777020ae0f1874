"""What block sizes and counts of tokens say against a stream of stores: one look at each operation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.residency_descriptor import FULL_KINDS
from kvxray_engine.stream.residency_faults import FaultKind
from kvxray_engine.stream.schema import NO_ORDINAL, Descriptor, Kind


@dataclass(frozen=True, slots=True)
class SizeFault:
    """`operation`: index of the one that says it. before, after: block sizes, where one changed."""

    kind: FaultKind
    operation: int
    before: int = 0
    after: int = 0


def size_faults(columns: Columns, descriptor: Descriptor, group_sizes: NDArray[np.uint16]) -> list[SizeFault]:
    """What is wrong with the sizes that these operations tell; `group_sizes` (indices) is brought up to date."""
    sizes = columns.a1 >> 16
    stores = np.flatnonzero((columns.kind == Kind.ResidencyStored) & (sizes > 0) & (columns.n > 0))
    if not len(stores):
        return []
    size, n = np.array(descriptor.block_sizes, np.int64)[sizes[stores]], columns.n[stores].astype(np.int64)
    tokens, is_told = columns.a0[stores].astype(np.int64), columns.a0[stores] != NO_ORDINAL
    # The last block of a chain may be a part of one.
    is_wrong = is_told & ((tokens <= (n - 1) * size) | (tokens > n * size))
    is_new = group_sizes[columns.a1[stores] & 0xFF] != sizes[stores]
    if len(np.unique(columns.a1[stores] & 0xFF)) < len(np.unique(columns.a1[stores] & 0xFFFF00FF)):
        is_new[:] = True
    found: list[SizeFault] = []
    for index in np.flatnonzero(is_wrong | is_new).tolist():
        operation = int(stores[index])
        if is_wrong[index]:
            group = descriptor.groups[int(columns.a1[operation]) & 0xFF]
            is_sparse = tokens[index] > n[index] * size[index] and group.kind not in FULL_KINDS
            found.append(SizeFault("sparse_group" if is_sparse else "token_count_mismatch", operation))
        found += _changed(columns, operation, descriptor, group_sizes)
    return found


def _changed(
    columns: Columns, operation: int, descriptor: Descriptor, group_sizes: NDArray[np.uint16]
) -> list[SizeFault]:
    """Another size than the group had: the new one holds from now on. One smaller block is a part of one."""
    a1 = int(columns.a1[operation])
    before = descriptor.block_sizes[group_sizes[a1 & 0xFF]]
    after = descriptor.block_sizes[a1 >> 16]
    if before == after or (after < before and int(columns.n[operation]) == 1):
        return []
    group_sizes[a1 & 0xFF] = a1 >> 16
    return [SizeFault("block_size_changed", operation, before, after)] if before else []
