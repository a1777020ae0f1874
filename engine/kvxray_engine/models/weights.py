"""The tensors of a Llama model, by name and shape.

Matrices that read the same input are stored as one (query, key and value; gate and up): half as many products a step,
and nothing to join when a model is loaded. Names follow vLLM's fused modules. Rows of queries and keys are in Hugging
Face's order, which turns dimension i together with i + head_dim / 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from kvxray_engine.models.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
MATRICES = ("qkv", "attention_out", "gate_up", "down")  # of a layer


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer; matrices are [output, input]."""

    input_norm: torch.Tensor
    qkv: torch.Tensor  # rows: query heads, key heads, value heads
    attention_out: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor  # rows: gate, up
    down: torch.Tensor
    qkv_bias: torch.Tensor | None = None
    attention_out_bias: torch.Tensor | None = None
    query_norm: torch.Tensor | None = None  # [head_dim], the same for every head
    key_norm: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    """All tensors of a model, of one dtype."""

    embedding: torch.Tensor  # [vocab_size, hidden_size]
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: torch.Tensor  # [vocab_size, hidden_size]; the embedding itself when tied

    @classmethod
    def from_tensors(cls, config: ModelConfig, tensors: Mapping[str, torch.Tensor]) -> LlamaWeights:
        """Order named tensors; every name of `tensor_shapes` must be there with its shape."""
        for name, shape in tensor_shapes(config).items():
            assert tuple(tensors[name].shape) == shape, f"{name} is {tuple(tensors[name].shape)}, expected {shape}"
        layers = [
            LayerWeights(**{field: tensors[name] for field, (name, _) in _layer_tensors(config, i).items()})
            for i in range(config.num_layers)
        ]
        embedding = tensors[EMBEDDING]
        head = embedding if config.tie_word_embeddings else tensors[HEAD]
        return cls(embedding, tuple(layers), tensors[FINAL_NORM], head)

    def to(self, device: torch.device) -> LlamaWeights:
        """The same on a device; a tensor that is there already is not copied."""
        layers = [LayerWeights(**_moved(layer, device)) for layer in self.layers]
        embedding = self.embedding.to(device)
        head = embedding if self.head is self.embedding else self.head.to(device)
        return LlamaWeights(embedding, tuple(layers), self.final_norm.to(device), head)

    @property
    def num_bytes(self) -> int:
        """Of all tensors, each counted once."""
        layers = [getattr(layer, field.name) for layer in self.layers for field in fields(layer)]
        own_head = [] if self.head is self.embedding else [self.head]
        tensors = [self.embedding, self.final_norm, *own_head, *(tensor for tensor in layers if tensor is not None)]
        return sum(tensor.nbytes for tensor in tensors)

    @property
    def vector_bytes(self) -> int:
        """Of all that is not a matrix."""
        layers: list[torch.Tensor | None] = [getattr(layer, f.name) for layer in self.layers for f in fields(layer)]
        return self.final_norm.nbytes + sum(t.nbytes for t in layers if t is not None and t.dim() == 1)

    def without_matrices(self) -> LlamaWeights:
        """The same with no more than shapes of the matrices; the embedding stays, from which rows are looked up."""
        layers = [
            replace(layer, **{name: getattr(layer, name).to("meta") for name in MATRICES}) for layer in self.layers
        ]
        head = self.head if self.head is self.embedding else self.head.to("meta")
        return replace(self, layers=tuple(layers), head=head)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor, in the order in which they are stored."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, config.hidden_size)}
    for i in range(config.num_layers):
        shapes |= layer_tensor_shapes(config, i)
    shapes[FINAL_NORM] = (config.hidden_size,)
    if not config.tie_word_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    return shapes


def layer_tensor_shapes(config: ModelConfig, layer: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of the tensors of one layer."""
    return dict(_layer_tensors(config, layer).values())


def _moved(layer: LayerWeights, device: torch.device) -> dict[str, Any]:
    """The fields that have a tensor, on the device."""
    tensors = {field.name: getattr(layer, field.name) for field in fields(layer)}
    return {name: tensor.to(device) for name, tensor in tensors.items() if tensor is not None}


def _layer_tensors(config: ModelConfig, layer: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Field of `LayerWeights` to name and shape, of the tensors that a layer of this model has."""
    query_size = config.num_heads * config.head_dim
    qkv_size = query_size + 2 * config.num_kv_heads * config.head_dim
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "input_norm": ("input_layernorm.weight", (config.hidden_size,)),
        "qkv": ("self_attn.qkv_proj.weight", (qkv_size, config.hidden_size)),
        "attention_out": ("self_attn.o_proj.weight", (config.hidden_size, query_size)),
        "mlp_norm": ("post_attention_layernorm.weight", (config.hidden_size,)),
        "gate_up": ("mlp.gate_up_proj.weight", (2 * config.intermediate_size, config.hidden_size)),
        "down": ("mlp.down_proj.weight", (config.hidden_size, config.intermediate_size)),
    }
    if config.qkv_bias:
        tensors["qkv_bias"] = ("self_attn.qkv_proj.bias", (qkv_size,))
    if config.attention_out_bias:
        tensors["attention_out_bias"] = ("self_attn.o_proj.bias", (config.hidden_size,))
    if config.qk_norm:
        tensors["query_norm"] = ("self_attn.q_norm.weight", (config.head_dim,))
        tensors["key_norm"] = ("self_attn.k_norm.weight", (config.head_dim,))
    return {field: (f"model.layers.{layer}.{name}", shape) for field, (name, shape) in tensors.items()}
