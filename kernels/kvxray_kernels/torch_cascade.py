"""How the parts of a step attend in torch: decode sequences, decode sequences behind a shared prefix, tiles of prefill.

`read` gives keys and values of some blocks, each [kv heads, tokens, head_dim] and valid until the next read, with
zeros in place of tokens that the query does not see. A bias of -inf on those would not do: a NaN in memory that nobody
wrote survives any weight, also 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kvxray_kernels.attention_variant import AttentionVariant
from kvxray_kernels.packed_prefixes import LayerPrefixes
from kvxray_kernels.torch_attention import attention, merge, partial_attention, plain_attention, with_sinks
from kvxray_kernels.torch_steps import Blocks, DecodeGroup, QueryTile, SharedGroup

KeysAndValues = tuple[torch.Tensor, torch.Tensor]
Read = Callable[[Blocks, torch.Tensor | None], KeysAndValues]


def decode(q: torch.Tensor, group: DecodeGroup, read: Read, variant: AttentionVariant) -> torch.Tensor:
    """Attention of one query token a sequence, q [sequences, heads, head_dim]; same shape out."""
    keys, values, bias = _decode_inputs(q, group, read, variant)
    rows = q.reshape(q.shape[0], keys.shape[1], -1, q.shape[2])
    if variant.sinks is None:
        return attention(rows, keys, values, bias, variant).reshape(q.shape)
    out, lse = partial_attention(rows, keys, values, bias, variant)
    return with_sinks(out.reshape(q.shape), lse.reshape(q.shape[:2]), variant.sinks).to(q.dtype)


def cascade(
    q: torch.Tensor, shared: SharedGroup, read: Read, variant: AttentionVariant, prefix: LayerPrefixes
) -> torch.Tensor:
    """The same where all sequences begin with the same blocks: over those once, then over what each has of its own."""
    packed, prefix_out, prefix_lse = _prefix_part(q, shared, read, variant, prefix)
    out = q.new_empty(q.shape)
    by_kv_head = _by_kv_head(out, packed.shape[0])
    for suffix in shared.suffixes:
        chosen = (slice(None), suffix.rows)
        own_out, own_lse = _decode_part(packed[chosen].transpose(0, 1), suffix, read, variant)
        merged, lse = merge(prefix_out[chosen], prefix_lse[chosen], own_out.transpose(0, 1), own_lse.transpose(0, 1))
        if variant.sinks is not None:
            merged = with_sinks(merged, lse, variant.sinks.view(packed.shape[0], 1, -1))
        by_kv_head[chosen] = merged
    return out


def prefill(q: torch.Tensor, tile: QueryTile, context: KeysAndValues, variant: AttentionVariant) -> torch.Tensor:
    """Attention of a tile of one sequence's query tokens [tokens, heads, head_dim] over its context; same shape out."""
    begin, bias = 0, tile.bias
    if variant.sliding_window is not None:
        # What no query of the tile sees is left out, so that all that remains was written.
        begin = max(0, tile.visible - q.shape[0] + 1 - variant.sliding_window)
        bias = tile.within(variant.sliding_window)[:, begin:]
    keys, values = (part[None, :, begin : tile.visible] for part in context)
    if variant.softcap is None and variant.sinks is None:
        out = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys, values, attn_mask=bias, scale=variant.scale, enable_gqa=True
        )
        return out[0].transpose(0, 1)
    rows = _by_kv_head(q, keys.shape[1])
    bias = bias.repeat_interleave(rows.shape[2], dim=0)
    out, lse = plain_attention(rows.flatten(1, 2)[None], keys, values, bias, variant)
    out, lse = _by_token(out.reshape(rows.shape)), _by_token(lse.reshape(rows.shape[:-1])[..., None]).squeeze(-1)
    return (out if variant.sinks is None else with_sinks(out, lse, variant.sinks)).to(q.dtype)


def _decode_part(
    rows: torch.Tensor, group: DecodeGroup, read: Read, variant: AttentionVariant
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of query rows [sequences, kv heads, rows, head_dim]: result of this shape, log-sum-exp without the last."""
    return partial_attention(rows, *_decode_inputs(rows, group, read, variant), variant)


def _decode_inputs(
    q: torch.Tensor, group: DecodeGroup, read: Read, variant: AttentionVariant
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Keys, values and bias, by sequence and kv head."""
    bias, unseen = group.bias, group.padding
    if variant.sliding_window is not None:
        bias, unseen = group.within(variant.sliding_window, q.dtype)
    keys, values = (
        part.view(part.shape[0], q.shape[0], -1, part.shape[2])[:, :, : group.num_tokens].transpose(0, 1)
        for part in read(group.blocks, unseen)
    )
    return keys, values, bias


def _prefix_part(
    q: torch.Tensor, shared: SharedGroup, read: Read, variant: AttentionVariant, prefix: LayerPrefixes
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of the shared blocks, for all sequences: query rows [kv heads, sequences, rows, head_dim], result of the same
    shape, log-sum-exp without the last."""
    bias, unseen = None, None
    if variant.sliding_window is not None:
        bias, unseen = shared.within(variant.sliding_window, q.dtype)
    packed = _by_kv_head(q, prefix.num_kv_heads).contiguous()
    rows = packed.flatten(1, 2)
    found = prefix.attend(shared.ids, rows, variant)
    if found is None:
        keys, values = read(shared.blocks, unseen)
        if bias is not None:
            bias = bias.repeat_interleave(packed.shape[2], dim=0)
        found = partial_attention(rows[None], keys[None], values[None], bias, variant)
        prefix.note(shared.ids, rows, keys, values, variant)
    out, lse = found
    return packed, out.view(packed.shape), lse.view(packed.shape[:-1])


def _by_kv_head(heads: torch.Tensor, num_kv_heads: int) -> torch.Tensor:
    """[tokens, heads, head_dim] as [kv heads, tokens, heads of the group, head_dim]: a view."""
    return heads.view(heads.shape[0], num_kv_heads, -1, heads.shape[2]).transpose(0, 1)


def _by_token(heads: torch.Tensor) -> torch.Tensor:
    """The other way round."""
    return heads.transpose(0, 1).flatten(1, 2)
