"""Merges partial results of attention over disjoint parts of a context into the result, by log-sum-exp.

The parts are the splits of paged_decode and those of cascade; each is (weighted values, maximum, sum) of its own
tokens (Flash-Decoding; Hydragen, arXiv 2402.05099). A sink belongs to no part: it is weighed in here, once. Grid:
(tokens, heads). The last slots, from `own_slots` on, hold a shared prefix and are read only for sequences with one:
nobody wrote the others. A slot of an empty split has maximum -inf and weighs 0.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kvxray_kernels.triton_kernels.attend_span import weigh_sinks
from kvxray_kernels.triton_kernels.operands import Partials
from kvxray_kernels.triton_kernels.tiles import padded

SLOTS_AT_ONCE = 8
"""As many partial rows are on their way from memory together; all of them would not fit the registers."""


@triton.jit(do_not_specialize=["slots", "own_slots"])
def merge_splits_kernel(
    partial_ptr, maxima_ptr, sums_ptr, out_ptr, sinks_ptr, suffix_starts_ptr, slots, own_slots,
    HEADS: tl.constexpr, SLOTS_PADDED: tl.constexpr, CHUNK: tl.constexpr,
    HEAD_DIM: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    head = tl.program_id(1)
    row = token.to(tl.int64) * HEADS + head
    num_live = own_slots
    if suffix_starts_ptr is not None:
        num_live = tl.where(tl.load(suffix_starts_ptr + token) > 0, slots, own_slots)

    slot = tl.arange(0, SLOTS_PADDED)
    maxima = tl.load(maxima_ptr + row * slots + slot, mask=slot < num_live, other=-float("inf"))
    sums = tl.load(sums_ptr + row * slots + slot, mask=slot < num_live, other=0.0)
    maximum = tl.max(maxima, 0)
    total = tl.sum(sums * tl.exp2(maxima - maximum), 0)
    shrink = 1.0
    if sinks_ptr is not None:
        total, shrink = weigh_sinks(maximum, total, tl.load(sinks_ptr + head))

    dims = tl.arange(0, PADDED)
    merged = tl.zeros([PADDED], tl.float32)
    for first in range(0, num_live, CHUNK):
        some = first + tl.arange(0, CHUNK)
        factors = tl.exp2(tl.load(maxima_ptr + row * slots + some, mask=some < num_live, other=-float("inf")) - maximum)
        offsets = (row * slots + some)[:, None] * HEAD_DIM + dims[None, :]
        mask = (some < num_live)[:, None] & (dims < HEAD_DIM)[None, :]
        merged += tl.sum(tl.load(partial_ptr + offsets, mask=mask, other=0.0) * factors[:, None], 0)
    out = merged * (shrink / total)
    tl.store(out_ptr + row * HEAD_DIM + dims, out.to(out_ptr.dtype.element_ty), mask=dims < HEAD_DIM)


def merge_splits(
    partials: Partials,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
    own_slots: int,
    suffix_starts: torch.Tensor | None = None,
) -> None:
    """Finish the first tokens of `out` [tokens, heads, head_dim] from what paged_decode and cascade left behind."""
    tokens, heads, slots, head_dim = partials.values.shape
    merge_splits_kernel[(tokens, heads)](
        **Partials.arguments(partials),
        out_ptr=out,
        sinks_ptr=sinks,
        suffix_starts_ptr=suffix_starts,
        own_slots=own_slots,
        HEADS=heads,
        SLOTS_PADDED=padded(slots),
        CHUNK=SLOTS_AT_ONCE,
        HEAD_DIM=head_dim,
        PADDED=padded(head_dim),
    )
