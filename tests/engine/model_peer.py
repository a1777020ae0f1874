"""transformers' Llama over the very tensors of one of our models: an independent forward pass to compare with."""

import torch
from kvxray_engine.models.llama import LlamaModel
from transformers import LlamaConfig, LlamaForCausalLM


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
def greedy(twin: LlamaForCausalLM, prompt: list[int], max_tokens: int) -> list[int]:
    """What transformers generates, end-of-text tokens not heeded."""
    ids = torch.tensor([prompt])
    output = twin.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max_tokens,
        min_new_tokens=None,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return output[0, len(prompt) :].tolist()
