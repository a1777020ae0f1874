"""The built-in model: random weights, 0.1 M parameters, built in milliseconds from a seed.

It says nothing sensible, but everything around it is real: for tests, and for machines that cannot fetch a model. Its
output head is its own: with a head tied to a random embedding, greedy decoding repeats one token for ever.
"""

from __future__ import annotations

import torch

from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.weights import EMBEDDING, HEAD, LlamaWeights, tensor_shapes
from kvxray_engine.tokenizer import ByteTokenizer


def tiny_config() -> ModelConfig:
    """Two layers, two query heads to a kv head, and the vocabulary of the byte tokenizer."""
    tokenizer = ByteTokenizer()
    return ModelConfig(
        name="tiny",
        vocab_size=tokenizer.vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        max_model_len=2048,
        rope_theta=10_000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        eos_token_ids=tuple(sorted(tokenizer.eos_token_ids)),
    )


def tiny_weights(config: ModelConfig, dtype: torch.dtype = torch.float32, seed: int = 0) -> LlamaWeights:
    """The same weights for the same seed: norms are 1, matrices keep the size of what passes through them."""
    random = torch.Generator().manual_seed(seed)
    tensors = {name: _draw(name, shape, random).to(dtype) for name, shape in tensor_shapes(config).items()}
    return LlamaWeights.from_tensors(config, tensors)


def _draw(name: str, shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    if len(shape) == 1:
        return torch.ones(shape)
    scale = 1.0 if name in (EMBEDDING, HEAD) else float(shape[1]) ** -0.5
    return torch.randn(shape, generator=random) * scale
