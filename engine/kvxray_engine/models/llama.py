"""The forward pass of the Llama family in plain torch, over a paged KV cache.

Knows tokens, positions and slots as tensors; batches, requests and sampling are the model runner's. Rows of the batch
are tokens of any number of sequences, side by side without padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from kvxray_kernels.backend import AttentionBackend, AttentionMetadata

from kvxray_engine.models.config import ModelConfig, RopeScaling
from kvxray_engine.models.linear import Linear, MakeLinear, PlainLinear, packed_linear
from kvxray_engine.models.weights import LayerWeights, LlamaWeights


@dataclass(frozen=True, slots=True)
class LayerLinears:
    """The products of one layer, biases included."""

    qkv: Linear
    attention_out: Linear
    gate_up: Linear
    down: Linear

    @classmethod
    def of(cls, weights: LayerWeights, make: MakeLinear) -> LayerLinears:
        return cls(
            make(weights.qkv, weights.qkv_bias),
            make(weights.attention_out, weights.attention_out_bias),
            make(weights.gate_up, None),
            make(weights.down, None),
        )

    @property
    def all(self) -> tuple[Linear, ...]:
        return (self.qkv, self.attention_out, self.gate_up, self.down)


class LlamaModel:
    """Weights and what follows from them; stateless between steps, since keys and values live in the backend."""

    def __init__(self, config: ModelConfig, weights: LlamaWeights, make_linear: MakeLinear = packed_linear) -> None:
        self.config = config
        self.weights = weights
        self.dtype = weights.embedding.dtype
        self._layers = tuple(LayerLinears.of(layer, make_linear) for layer in weights.layers)
        # Scores decide which token comes: the head keeps its precision, whatever the layers are quantised to.
        self._head = packed_linear(weights.head)
        self._cos, self._sin = (table.to(weights.embedding.device) for table in _rotary_table(config, self.dtype))

    @property
    def num_bytes(self) -> int:
        """Memory that the model takes for its weights, in the form in which they are used."""
        head_is_embedding = isinstance(self._head, PlainLinear) and self.weights.head is self.weights.embedding
        return self.bytes_read_per_step + (0 if head_is_embedding else self.weights.embedding.nbytes)

    @property
    def bytes_read_per_step(self) -> int:
        """All weights that a decode step reads: of the embedding it looks up a few rows."""
        linears = sum(linear.num_bytes for layer in self._layers for linear in layer.all)
        return self.weights.vector_bytes + linears + self._head.num_bytes

    def release_matrices(self) -> None:
        """Let go of the weights that are kept in another form; their shapes stay."""
        self.weights = self.weights.without_matrices()

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
        for layer, (weights, linears) in enumerate(zip(self.weights.layers, self._layers, strict=True)):
            qkv = linears.qkv(self._norm(x, weights.input_norm))
            x += linears.attention_out(self._attention(layer, weights, qkv, rotation, slot_mapping, metadata, backend))
            gate, up = linears.gate_up(self._norm(x, weights.mlp_norm)).chunk(2, dim=-1)
            x += linears.down(F.silu(gate).mul_(up))
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocab_size] of the token after each row of hidden states."""
        return self._head(self._norm(hidden, self.weights.final_norm))

    def _attention(
        self,
        layer: int,
        weights: LayerWeights,
        qkv: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        slot_mapping: torch.Tensor,
        metadata: AttentionMetadata,
        backend: AttentionBackend,
    ) -> torch.Tensor:
        """What each token takes from those it sees, [tokens, heads * head_dim]; `qkv` is the layer's first product."""
        config = self.config
        num_heads = config.num_heads
        qkv = qkv.view(qkv.shape[0], -1, config.head_dim)
        # Queries and keys are turned in one go: they are neighbours.
        turned = _rotate(self._normed_qk(weights, qkv[:, : num_heads + config.num_kv_heads]), *rotation)
        # A cache of another dtype is also attended over in it.
        turned, value = turned.to(backend.dtype), qkv[:, -config.num_kv_heads :].to(backend.dtype)
        backend.write_kv(layer, turned[:, num_heads:], value, slot_mapping)
        return backend.attend(layer, turned[:, :num_heads], metadata).to(qkv.dtype).reshape(qkv.shape[0], -1)

    def _normed_qk(self, weights: LayerWeights, heads: torch.Tensor) -> torch.Tensor:
        """Query and key heads [tokens, heads, head_dim], normalised where the model does that."""
        if weights.query_norm is None or weights.key_norm is None:
            return heads
        num_heads, shape, eps = self.config.num_heads, (self.config.head_dim,), self.config.rms_norm_eps
        query = F.rms_norm(heads[:, :num_heads], shape, weights.query_norm, eps)
        return torch.cat([query, F.rms_norm(heads[:, num_heads:], shape, weights.key_norm, eps)], dim=1)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden_size,), weight, self.config.rms_norm_eps)


def _rotary_table(config: ModelConfig, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine [max_model_len, head_dim] of the angle of each position (RoFormer, arXiv 2104.09864).

    The first half of the sines is negative: that is the sign with which the other half of a head is added to it.
    """
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    frequencies = 1.0 / config.rope_theta ** (half / config.head_dim)
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling)
    angles = torch.outer(torch.arange(config.max_model_len, dtype=torch.float32), frequencies).repeat(1, 2)
    signs = torch.tensor([-1.0, 1.0]).repeat_interleave(config.head_dim // 2)
    return angles.cos().to(dtype), (angles.sin() * signs).to(dtype)


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
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
