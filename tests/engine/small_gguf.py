"""Writes a small Llama as a GGUF file, the way llama.cpp's converter does, so that reading one needs no download."""

import json
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from kvxray_engine.models.config import ModelConfig
from kvxray_engine.models.weights import LlamaWeights
from kvxray_engine.tokenizer import byte_alphabet

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<file>")
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def small_vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level vocabulary, learned from a few words and from runs of blanks."""
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=340, initial_alphabet=byte_alphabet(), special_tokens=list(SPECIAL), show_progress=False
    )
    learner.train_from_iterator(["the cache holds the block", "   \n\n\n    ", "blocks the free block"] * 9, trainer)
    vocab = learner.get_vocab()
    merges = json.loads(learner.to_str())["model"]["merges"]
    return sorted(vocab, key=vocab.__getitem__), [" ".join(pair) for pair in merges]


def write_gguf(
    path: Path,
    config: ModelConfig,
    weights: LlamaWeights,
    *,
    quantised: bool = False,
    architecture: str = "llama",
    splitting: str = "smollm",
    add_bos: bool | None = False,
    extra_tensor: str | None = None,
    missing_tensor: str | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
) -> None:
    """One file with shape, tokenizer and tensors; the keywords make files that must be refused."""
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(config.num_layers)
    writer.add_context_length(config.max_model_len)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(kv_heads or config.num_kv_heads)
    writer.add_key_length(head_dim or config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_tokenizer(writer, splitting, add_bos)
    tensors = dict(_tensors(config, weights, architecture))
    if extra_tensor:
        tensors[extra_tensor] = torch.ones(32)
    if missing_tensor:
        del tensors[missing_tensor]
    for name, tensor in tensors.items():
        rows = tensor.contiguous().numpy()
        if quantised and rows.ndim == 2:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(rows, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, splitting: str, add_bos: bool | None) -> None:
    tokens, merges = small_vocabulary()
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIAL else normal for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_chat_template(TEMPLATE)


def _tensors(config: ModelConfig, weights: LlamaWeights, architecture: str):
    def ordered(rows: torch.Tensor, num_heads: int) -> torch.Tensor:
        return _interleaved(rows, num_heads) if architecture == "llama" else rows

    yield "token_embd.weight", weights.embedding
    sizes = [config.num_heads * config.head_dim] + 2 * [config.num_kv_heads * config.head_dim]
    for i, layer in enumerate(weights.layers):
        query, key, value = layer.qkv.split(sizes)
        gate, up = layer.gate_up.chunk(2)
        yield f"blk.{i}.attn_norm.weight", layer.input_norm
        yield f"blk.{i}.attn_q.weight", ordered(query, config.num_heads)
        yield f"blk.{i}.attn_k.weight", ordered(key, config.num_kv_heads)
        yield f"blk.{i}.attn_v.weight", value
        yield f"blk.{i}.attn_output.weight", layer.attention_out
        yield f"blk.{i}.ffn_norm.weight", layer.mlp_norm
        yield f"blk.{i}.ffn_gate.weight", gate
        yield f"blk.{i}.ffn_up.weight", up
        yield f"blk.{i}.ffn_down.weight", layer.down
        if layer.qkv_bias is not None:
            for part, bias in zip("qkv", layer.qkv_bias.split(sizes), strict=True):
                yield f"blk.{i}.attn_{part}.bias", bias
        if layer.query_norm is not None and layer.key_norm is not None:
            yield f"blk.{i}.attn_q_norm.weight", layer.query_norm
            yield f"blk.{i}.attn_k_norm.weight", layer.key_norm
    yield "output_norm.weight", weights.final_norm
    if not config.tie_word_embeddings:
        yield "output.weight", weights.head


def _interleaved(rows: torch.Tensor, num_heads: int) -> torch.Tensor:
    """The order of llama.cpp's converter: its `permute`."""
    array = rows.numpy()
    halves = array.reshape(num_heads, 2, array.shape[0] // num_heads // 2, *array.shape[1:])
    return torch.from_numpy(np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape)))
