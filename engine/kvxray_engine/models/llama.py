"""The forward pass of the Llama family in plain torch, over a paged KV cache.

Knows tokens, positions and slots as tensors; batches, requests and sampling are the model runner's. Rows of the batch
are tokens of any number of sequences, side by side without padding.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata

from kvxray_engine.models.config import ModelConfig, RopeScaling
from kvxray_engine.models.weights import LayerWeights, LlamaWeights


class LlamaModel:
    """Weights and what follows from them; stateless between steps, since keys and values live in the backend."""

    def __init__(self, config: ModelConfig, weights: LlamaWeights) -> None:
        self.config = config
        self.weights = weights
        self.dtype = weights.embedding.dtype
        self._cos, self._sin = _rotary_table(config, self.dtype)

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slot_mapping: torch.Tensor,
        metadata: AttentionMetadata,
        backend: AttentionBackend,
    ) -> torch.Tensor:
        """Hidden states [tokens, hidden_size] before the final norm; keys and values are written to their slots.

        token_ids, positions and slot_mapping are int64 [tokens].
        """
        x = F.embedding(token_ids, self.weights.embedding)
        rotation = self._cos[positions, None], self._sin[positions, None]
        for layer, weights in enumerate(self.weights.layers):
            x = x + self._attention(layer, weights, x, rotation, slot_mapping, metadata, backend)
            x = x + self._mlp(weights, x)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocab_size] of the token after each row of hidden states."""
        return F.linear(self._norm(hidden, self.weights.final_norm), self.weights.head)

    def _attention(
        self,
        layer: int,
        weights: LayerWeights,
        x: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        slot_mapping: torch.Tensor,
        metadata: AttentionMetadata,
        backend: AttentionBackend,
    ) -> torch.Tensor:
        config = self.config
        num_heads = config.num_heads
        qkv = F.linear(self._norm(x, weights.input_norm), weights.qkv, weights.qkv_bias)
        qkv = qkv.view(x.shape[0], -1, config.head_dim)
        # Queries and keys are turned in one go: they are neighbours.
        turned = _rotate(self._normed_qk(weights, qkv[:, : num_heads + config.num_kv_heads]), *rotation)
        # A cache of another dtype is also attended over in it.
        turned, value = turned.to(backend.dtype), qkv[:, -config.num_kv_heads :].to(backend.dtype)
        backend.write_kv(layer, turned[:, num_heads:], value, slot_mapping)
        attended = backend.attend(layer, turned[:, :num_heads], metadata).to(x.dtype)
        return F.linear(attended.reshape(x.shape[0], -1), weights.attention_out, weights.attention_out_bias)

    def _normed_qk(self, weights: LayerWeights, heads: torch.Tensor) -> torch.Tensor:
        """Query and key heads [tokens, heads, head_dim], normalised where the model does that."""
        if weights.query_norm is None or weights.key_norm is None:
            return heads
        num_heads, shape, eps = self.config.num_heads, (self.config.head_dim,), self.config.rms_norm_eps
        query = F.rms_norm(heads[:, :num_heads], shape, weights.query_norm, eps)
        return torch.cat([query, F.rms_norm(heads[:, num_heads:], shape, weights.key_norm, eps)], dim=1)

    def _mlp(self, weights: LayerWeights, x: torch.Tensor) -> torch.Tensor:
        gate, up = F.linear(self._norm(x, weights.mlp_norm), weights.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, weights.down)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden_size,), weight, self.config.rms_norm_eps)


def _rotary_table(config: ModelConfig, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine [max_model_len, head_dim] of the angle of each position (RoFormer, arXiv 2104.09864)."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    frequencies = 1.0 / config.rope_theta ** (half / config.head_dim)
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling)
    angles = torch.outer(torch.arange(config.max_model_len, dtype=torch.float32), frequencies).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Frequencies [head_dim / 2] of a model that reads further than it was trained to.

    linear: position interpolation (arXiv 2306.15595). llama3: as Llama 3.1 was released (`apply_scaling` of its code).
    """
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    turns = scaling.original_max_model_len * frequencies / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return (1 - kept) * frequencies / scaling.factor + kept * frequencies


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn x [tokens, heads, head_dim] by its positions; dimension i is paired with i + head_dim / 2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
