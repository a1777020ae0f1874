"""transformers' Llama over the very tensors of one of our models: an independent forward pass to compare with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from kvxray_engine.models.llama import LlamaModel
from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteriaList


def transformers_twin(model: LlamaModel) -> LlamaForCausalLM:
    """A `LlamaForCausalLM` that shares the weights of this model."""
    config, weights = model.config, model.weights
    twin = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_model_len,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            rms_norm_eps=config.rms_norm_eps,
            tie_word_embeddings=config.tie_word_embeddings,
            eos_token_id=list(config.eos_token_ids),
            pad_token_id=0,
        )
    )
    state = {"model.embed_tokens.weight": weights.embedding, "model.norm.weight": weights.final_norm}
    state["lm_head.weight"] = weights.head
    sizes = [config.num_heads * config.head_dim] + 2 * [config.num_kv_heads * config.head_dim]
    for i, layer in enumerate(weights.layers):
        query, key, value = layer.qkv.split(sizes)
        gate, up = layer.gate_up.chunk(2)
        parts = {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value}
        parts |= {"self_attn.o_proj": layer.attention_out, "mlp.gate_proj": gate, "mlp.up_proj": up}
        parts |= {"mlp.down_proj": layer.down}
        parts |= {"input_layernorm": layer.input_norm, "post_attention_layernorm": layer.mlp_norm}
        state |= {f"model.layers.{i}.{name}.weight": tensor for name, tensor in parts.items()}
    twin.load_state_dict(state, strict=True, assign=True)
    return twin.eval()


@torch.inference_mode()
def generate_greedily(twin: LlamaForCausalLM, prompts: Sequence[Sequence[int]], max_tokens: int, **options: Any) -> Any:
    """What transformers generates after prompts of one length, end-of-text tokens not heeded: [prompts, max_tokens]."""
    ids = torch.tensor(prompts)
    output = twin.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max_tokens,
        min_new_tokens=None,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )
    return output[:, ids.shape[1] :].tolist()


class TwinDecode:
    """Prompts of one length that are generated from anew in every round; only the steps after the prompt are timed."""

    def __init__(self, twin: LlamaForCausalLM, prompts: Sequence[Sequence[int]]) -> None:
        self._twin = twin
        self._prompts = prompts
        self.tokens: list[list[int]] = []  # of each prompt in the last round
        self._ends: list[float] = []

    def run(self, steps: int) -> list[float]:
        """Seconds of each step."""
        self._ends = []
        stopping = StoppingCriteriaList([self._end_of_step])
        self.tokens = generate_greedily(self._twin, self._prompts, steps + 1, stopping_criteria=stopping)
        return [end - begin for begin, end in zip(self._ends, self._ends[1:], strict=False)]

    def _end_of_step(self, ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self._ends.append(time.perf_counter())
        return torch.zeros(ids.shape[0], dtype=torch.bool)
