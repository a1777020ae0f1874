"""Reads a GGUF file: the shape of its model and its dequantised tensors, in our names, fused and in our row order.

The llama, qwen2 and qwen3 architectures. In files of the first, llama.cpp stores the rows of queries and keys so that
neighbours turn together; ours, like Hugging Face's, turn the two halves of a head together, so those rows are put back.
Anything in the file that this code would have to ignore is an error: a model that runs wrongly is worse than one that
does not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize

from kvxray_engine.errors import UserError
from kvxray_engine.models.config import ModelConfig

ARCHITECTURES = ("llama", "qwen2", "qwen3")


class GgufFile:
    """An opened GGUF file of a model that can be run. UserError when it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = GGUFReader(path)
        except Exception as error:  # a cut or foreign file fails in any of the reader's parts
            raise UserError(
                f"{path} is not a readable GGUF file ({str(error).rstrip('.') or type(error).__name__}): "
                "fetch it again or name another one."
            ) from error
        self.architecture = str(self.field("general.architecture"))
        if self.architecture not in ARCHITECTURES:
            raise UserError(
                f"{path} holds a model of the {self.architecture} architecture: only {', '.join(ARCHITECTURES)} can be "
                "run."
            )
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def field(self, key: str) -> Any:
        """One value of the metadata. UserError when the file lacks it."""
        value = self.optional_field(key)
        if value is None:
            raise UserError(f"{self.path} lacks {key}: it is damaged or not a whole model, so name another file.")
        return value

    def optional_field(self, key: str) -> Any | None:
        """One value of the metadata, None when the file lacks it."""
        found = self._reader.get_field(key)
        return None if found is None else found.contents()

    def config(self, name: str) -> ModelConfig:
        """The model's shape. UserError when it needs something this code does not do."""
        self._refuse_unknown()
        hidden_size = int(self._shape("embedding_length"))
        num_heads = int(self._shape("attention.head_count"))
        num_kv_heads = int(self._optional_shape("attention.head_count_kv") or num_heads)
        head_dim = int(self._optional_shape("attention.key_length") or hidden_size // num_heads)
        if num_heads % num_kv_heads or head_dim % 2:
            raise UserError(
                f"{self.path} has {num_heads} query heads for {num_kv_heads} kv heads, of {head_dim} numbers each: the "
                "former must be a multiple, the numbers even, so name another model."
            )
        bos = self.optional_field("tokenizer.ggml.bos_token_id")
        return ModelConfig(
            name=name,
            vocab_size=int(self._tensors["token_embd.weight"].shape[1]),
            hidden_size=hidden_size,
            intermediate_size=int(self._shape("feed_forward_length")),
            num_layers=int(self._shape("block_count")),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            max_model_len=int(self._shape("context_length")),
            rope_theta=float(self._optional_shape("rope.freq_base") or 10_000.0),
            # Stored as float32: 1e-5 comes back as 9.999999747378752e-06, which models do not mean.
            rms_norm_eps=float(f"{self._shape('attention.layer_norm_rms_epsilon'):.6g}"),
            tie_word_embeddings="output.weight" not in self._tensors,
            eos_token_ids=self.eos_token_ids(),
            bos_token_id=None if bos is None else int(bos),
            qkv_bias=self.architecture == "qwen2",
            qk_norm=self.architecture == "qwen3",
        )

    def eos_token_ids(self) -> tuple[int, ...]:
        """The token that ends a text, and the one that ends a turn where it is another."""
        ends = [int(self.field("tokenizer.ggml.eos_token_id"))]
        turn = self.optional_field("tokenizer.ggml.eot_token_id")
        return tuple(dict.fromkeys(ends if turn is None else [*ends, int(turn)]))

    def tensors(self, config: ModelConfig) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor of `tensor_shapes(config)`, in that order, float32; one is held at a time."""
        yield "model.embed_tokens.weight", self._matrix("token_embd.weight")
        for i in range(config.num_layers):
            yield from self._layer_tensors(config, i)
        yield "model.norm.weight", self._matrix("output_norm.weight")
        if not config.tie_word_embeddings:
            yield "lm_head.weight", self._matrix("output.weight")

    def _layer_tensors(self, config: ModelConfig, i: int) -> Iterator[tuple[str, torch.Tensor]]:
        ours, theirs = f"model.layers.{i}", f"blk.{i}"
        query = self._matrix(f"{theirs}.attn_q.weight")
        key = self._matrix(f"{theirs}.attn_k.weight")
        if self.architecture == "llama":
            query = _halves_together(query, config.num_heads)
            key = _halves_together(key, config.num_kv_heads)
        value = self._matrix(f"{theirs}.attn_v.weight")
        gate_up = [self._matrix(f"{theirs}.ffn_gate.weight"), self._matrix(f"{theirs}.ffn_up.weight")]
        yield f"{ours}.input_layernorm.weight", self._matrix(f"{theirs}.attn_norm.weight")
        yield f"{ours}.self_attn.qkv_proj.weight", torch.cat([query, key, value])
        yield f"{ours}.self_attn.o_proj.weight", self._matrix(f"{theirs}.attn_output.weight")
        yield f"{ours}.post_attention_layernorm.weight", self._matrix(f"{theirs}.ffn_norm.weight")
        yield f"{ours}.mlp.gate_up_proj.weight", torch.cat(gate_up)
        yield f"{ours}.mlp.down_proj.weight", self._matrix(f"{theirs}.ffn_down.weight")
        if config.qkv_bias:
            biases = [self._matrix(f"{theirs}.attn_{part}.bias") for part in "qkv"]
            yield f"{ours}.self_attn.qkv_proj.bias", torch.cat(biases)
        if config.qk_norm:
            yield f"{ours}.self_attn.q_norm.weight", self._matrix(f"{theirs}.attn_q_norm.weight")
            yield f"{ours}.self_attn.k_norm.weight", self._matrix(f"{theirs}.attn_k_norm.weight")

    def _shape(self, key: str) -> Any:
        return self.field(f"{self.architecture}.{key}")

    def _optional_shape(self, key: str) -> Any | None:
        return self.optional_field(f"{self.architecture}.{key}")

    def _matrix(self, name: str) -> torch.Tensor:
        tensor: ReaderTensor = self._tensors[name]
        try:
            rows = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            kind = tensor.tensor_type.name
            raise UserError(f"{self.path} is quantised as {kind}, which cannot be read: name another file.") from error
        # What is not quantised is a view of the file, which torch must not write to: that is copied, nothing else.
        return torch.from_numpy(np.require(rows, np.float32, ["C", "W"]))

    def _refuse_unknown(self) -> None:
        """UserError unless the file holds exactly the tensors that this code uses, and no scaled positions."""
        parts = (*_PARTS, *_PARTS_OF.get(self.architecture, ()))
        layers = range(int(self._shape("block_count")))
        needed = {"token_embd.weight", "output_norm.weight"} | {f"blk.{i}.{part}" for i in layers for part in parts}
        for name in sorted(needed - self._tensors.keys()):
            raise UserError(f"{self.path} lacks the tensor {name}: it is damaged or only a part, so fetch it again.")
        for name in sorted(self._tensors.keys() - needed - {"output.weight"}):
            raise UserError(f"{self.path} has a tensor {name} that cannot be run yet: name another model.")
        scaling = self._optional_shape("rope.scaling.type")
        if scaling not in (None, "none"):
            raise UserError(
                f"{self.path} scales its positions ({scaling}), which cannot be run yet: name another model."
            )


_PARTS = (
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
)
_PARTS_OF = {
    "qwen2": ("attn_q.bias", "attn_k.bias", "attn_v.bias"),
    "qwen3": ("attn_q_norm.weight", "attn_k_norm.weight"),
}


def _halves_together(rows: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Undo llama.cpp's order: within each head, rows 0, 2, 4 ... become the first half and 1, 3, 5 ... the second."""
    head_dim = rows.shape[0] // num_heads
    return rows.view(num_heads, head_dim // 2, 2, -1).transpose(1, 2).reshape(rows.shape)
