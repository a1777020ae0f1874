"""Attention of query rows over gathered keys and values in torch: the fused kernel where it will do, products and a
softmax where a variant bends the scores, and the merging of two partial results by their log-sum-exp.

q [sequences, kv heads, rows, head_dim], keys and values [sequences, kv heads, tokens, head_dim], a bias that broadcasts
to [sequences, kv heads, rows, tokens] with -inf on what a row does not see. Partial results come with the natural
logarithm of the sum of their exponentiated scores, float32 [sequences, kv heads, rows].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kvxray_kernels.attention_variant import AttentionVariant

# The kernel behind scaled_dot_product_attention that also returns log-sum-exps. It is private to torch, so that it may
# be missing; everything then goes the plain way.
_FLASH = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)

# Up to here two products over all sequences and kv heads at once beat the fused kernel, which takes them one by one.
FEW_ROWS = 8
FEW_TOKENS = 256


def attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None, variant: AttentionVariant
) -> torch.Tensor:
    """Attention over all that the rows see, without sinks; in the dtype of q. Every row must see something."""
    if variant.softcap is not None:
        return plain_attention(q, keys, values, bias, variant)[0].to(q.dtype)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=bias, scale=variant.scale)


def partial_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None, variant: AttentionVariant
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same and its log-sum-exp. A row that sees nothing comes out as zeros and -inf."""
    # The fused kernel has no answer for a row that sees nothing, which windows make.
    bent = variant.softcap is not None or variant.sliding_window is not None
    if _FLASH is None or q.device.type != "cpu" or bent or _is_small(q, keys):
        return plain_attention(q, keys, values, bias, variant)
    out, lse = _FLASH(q, keys, values, 0.0, False, attn_mask=bias, scale=variant.scale_for(q.shape[-1]))
    return out, lse


def plain_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None, variant: AttentionVariant
) -> tuple[torch.Tensor, torch.Tensor]:
    """`partial_attention` by two products, in float32."""
    num_sequences, num_kv_heads, num_rows, head_dim = q.shape
    by_kv_head = (num_kv_heads, num_sequences, num_rows, -1)
    if bias is not None:
        bias = bias.expand(num_sequences, num_kv_heads, num_rows, -1).transpose(0, 1)
    scores = _scores(_matrices(q), _matrices(keys), bias, variant.scale_for(head_dim), variant.softcap)
    # Finite, so that a row that sees nothing has exp(-inf - finite) = 0 everywhere and not NaN.
    largest = scores.amax(dim=-1, keepdim=True).clamp_(min=torch.finfo(torch.float32).min)
    weights = scores.sub_(largest).exp_()
    total = weights.sum(dim=-1, keepdim=True)
    out = torch.bmm(weights, _matrices(values)).div_(total.clamp(min=torch.finfo(torch.float32).tiny))
    lse = largest.add_(total.log_())
    return out.view(by_kv_head).transpose(0, 1), lse.view(by_kv_head[:-1]).transpose(0, 1)


def merge(
    first: torch.Tensor, first_lse: torch.Tensor, second: torch.Tensor, second_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One result of two over different tokens, of which at least one was not empty; out [..., head_dim], lse [...]."""
    share = torch.sigmoid(second_lse - first_lse)[..., None]  # exp(b) / (exp(a) + exp(b)), whatever their size
    return torch.lerp(first.float(), second.float(), share), torch.logaddexp(first_lse, second_lse)


def with_sinks(out: torch.Tensor, lse: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """A result after one more score took its share of the weight; `sinks` broadcasts to lse."""
    return out * torch.sigmoid(lse - sinks)[..., None]


def _is_small(q: torch.Tensor, keys: torch.Tensor) -> bool:
    """Little work for each of several sequences, which plain products take as they are: nothing has to be copied."""
    num_sequences, num_kv_heads, num_rows, head_dim = q.shape
    tokens_side_by_side = keys.stride(1) == num_sequences * keys.stride(0) and keys.stride(2) == head_dim
    few = num_rows <= FEW_ROWS and keys.shape[2] <= FEW_TOKENS
    return num_sequences > 1 and few and tokens_side_by_side and q.dtype == torch.float32


def _matrices(part: torch.Tensor) -> torch.Tensor:
    """One for each kv head and sequence, in this order: a view where the tokens of a kv head lie side by side."""
    return part.float().transpose(0, 1).flatten(0, 1)


def _scores(
    q: torch.Tensor, keys: torch.Tensor, bias: torch.Tensor | None, scale: float, softcap: float | None
) -> torch.Tensor:
    """Of matrices of rows and keys, [matrices, rows, tokens]; `bias` [kv heads, sequences, rows, tokens]."""
    scores = q.new_empty(*q.shape[:2], keys.shape[1])
    if softcap is None:
        if bias is not None:
            scores.view(bias.shape).copy_(bias)
        return scores.baddbmm_(q, keys.transpose(1, 2), beta=0 if bias is None else 1, alpha=scale)
    scores.baddbmm_(q, keys.transpose(1, 2), beta=0, alpha=scale / softcap).tanh_().mul_(softcap)
    if bias is not None:
        scores.view(bias.shape).add_(bias)
    return scores
