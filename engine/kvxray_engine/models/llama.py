"""The forward pass of the Llama family in plain torch, over a paged KV cache.

Knows tokens, positions and slots as tensors; batches, requests and sampling are the model runner's. Rows of the batch
are tokens of any number of sequences, side by side without padding.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata

from kvxray_engine.models.config import ModelConfig
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
        qkv = F.linear(self._norm(x, weights.input_norm), weights.qkv).view(x.shape[0], -1, config.head_dim)
        # Queries and keys are turned in one go: they are neighbours.
        turned = _rotate(qkv[:, : config.num_heads + config.num_kv_heads], *rotation)
        backend.write_kv(layer, turned[:, config.num_heads :], qkv[:, -config.num_kv_heads :], slot_mapping)
        attended = backend.attend(layer, turned[:, : config.num_heads], metadata)
        return F.linear(attended.reshape(x.shape[0], -1), weights.attention_out)

    def _mlp(self, weights: LayerWeights, x: torch.Tensor) -> torch.Tensor:
        gate, up = F.linear(self._norm(x, weights.mlp_norm), weights.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, weights.down)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden_size,), weight, self.config.rms_norm_eps)


def _rotary_table(config: ModelConfig, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine [max_model_len, head_dim] of the angle of each position (RoFormer, arXiv 2104.09864)."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    frequencies = 1.0 / config.rope_theta ** (half / config.head_dim)
    angles = torch.outer(torch.arange(config.max_model_len, dtype=torch.float32), frequencies).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn x [tokens, heads, head_dim] by its positions; dimension i is paired with i + head_dim / 2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
