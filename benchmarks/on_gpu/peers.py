"""Other people's attention over the same keys and values: torch's own always, vLLM's and FlashInfer's where installed.

Each is made for one step and then called layer by layer. Torch gets the keys and values of every sequence in one piece,
as it wants them: gathering them would cost more than attending. The other two read our blocks as they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata

Peer = Callable[[int], Any]
"""Attends in one layer."""


def torch_sdpa(backend: AttentionBackend, metadata: AttentionMetadata, q: torch.Tensor) -> Peer:
    lens, context = metadata.query_lens, metadata.context_lens[0]
    assert len(set(metadata.context_lens)) == len(set(lens)) == 1, "sequences of one length, or torch must pad"
    blocks = metadata.block_tables[:, : backend.num_blocks_for(context)].long()
    gathered = [
        [cache[layer][blocks].flatten(1, 2)[:, :context].transpose(1, 2).contiguous() for layer in range(len(cache))]
        for cache in (backend.key_cache, backend.value_cache)
    ]
    queries = q.view(len(lens), lens[0], *q.shape[1:]).transpose(1, 2)
    whole = lens[0] == context
    mask = None
    if lens[0] > 1 and not whole:
        seen = torch.arange(context, device=q.device)[None, :]
        mask = seen <= torch.arange(context - lens[0], context, device=q.device)[:, None]

    def attend(layer: int) -> torch.Tensor:
        keys, values = gathered[0][layer], gathered[1][layer]
        causal = whole and lens[0] > 1
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=True)

    return attend


def vllm(backend: AttentionBackend, metadata: AttentionMetadata, q: torch.Tensor) -> Peer:
    """Its FlashAttention, in the version that it prefers on this GPU."""
    from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func, get_flash_attn_version

    starts, lengths = (_int32(numbers, q) for numbers in (metadata.query_starts, metadata.context_lens))
    version = get_flash_attn_version()
    out = torch.empty_like(q)

    def attend(layer: int) -> Any:
        return flash_attn_varlen_func(
            q,
            backend.key_cache[layer],
            backend.value_cache[layer],
            max_seqlen_q=max(metadata.query_lens),
            cu_seqlens_q=starts,
            max_seqlen_k=max(metadata.context_lens),
            seqused_k=lengths,
            softmax_scale=q.shape[2] ** -0.5,
            causal=True,
            block_table=metadata.block_tables,
            out=out,
            fa_version=version,
        )

    return attend


def flashinfer(backend: AttentionBackend, metadata: AttentionMetadata, q: torch.Tensor) -> Peer:
    """Its paged prefill wrapper, which also decodes, on tensor cores."""
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    size = backend.shape.block_size
    blocks = [backend.num_blocks_for(length) for length in metadata.context_lens]
    indptr = [sum(blocks[:i]) for i in range(len(blocks) + 1)]
    indices = torch.cat([metadata.block_tables[i, :n] for i, n in enumerate(blocks)])
    last = [length - (n - 1) * size for length, n in zip(metadata.context_lens, blocks, strict=True)]
    wrapper = BatchPrefillWithPagedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=q.device), "NHD")
    wrapper.plan(
        _int32(metadata.query_starts, q),
        _int32(indptr, q),
        indices,
        _int32(last, q),
        q.shape[1],
        backend.shape.num_kv_heads,
        q.shape[2],
        size,
        causal=True,
        q_data_type=q.dtype,
    )
    return lambda layer: wrapper.run(q, (backend.key_cache[layer], backend.value_cache[layer]))


def _int32(numbers: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(numbers), dtype=torch.int32, device=like.device)


PEERS: Final = {"torch": torch_sdpa, "vllm": vllm, "flashinfer": flashinfer}
