"""Small models as Hugging Face folders: random weights, made and saved by transformers, so that it is the judge."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tests.engine.small_gguf import SPECIAL, TEMPLATE, small_vocabulary

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,  # large enough that the most likely token stands out
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}

FAMILIES: dict[str, tuple[type, type, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"head_dim": 16}),
    "llama3": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama_biased": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True, "num_key_value_heads": 4}),
    "llama_linear": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": LINEAR}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen2_tied": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 32}),
    "qwen3_biased": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16, "attention_bias": True}),
}


def small_model(family: str, seed: int = 0) -> PreTrainedModel:
    """A model of this family; what starts as zeros or ones is drawn too, so that forgetting it would tell."""
    config, kind, more = FAMILIES[family]
    torch.manual_seed(seed)
    model = kind(config(**SHAPE | {"vocab_size": len(small_vocabulary()[0])} | more)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def write_folder(folder: Path, family: str, shard_size: str = "5GB", dtype: torch.dtype = torch.float32) -> Path:
    """The model and a tokenizer of its own, as transformers and tokenizers write them."""
    model = small_model(family).to(dtype)
    model.save_pretrained(folder, max_shard_size=shard_size)
    small_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def small_tokenizer() -> tokenizers.Tokenizer:
    """Byte-level BPE that begins every text with a token, as Llama 3 does."""
    tokens, merges = small_vocabulary()
    vocab = {token: i for i, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([tokenizers.AddedToken(name, normalized=False) for name in SPECIAL])
    backend.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", pair="<|im_start|> $A $B", special_tokens=[("<|im_start|>", vocab["<|im_start|>"])]
    )
    return backend
