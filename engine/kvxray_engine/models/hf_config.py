"""Reads the config.json of a Hugging Face folder: Llama, Qwen2 and Qwen3, as transformers 4 and 5 write them.

Anything in it that our forward pass would have to ignore is an error: a model that runs wrongly is worse than one that
does not run.
"""

from __future__ import annotations

from typing import Any, Final

from kvxray_engine.models.config import ModelConfig, RopeScaling

Json = dict[str, Any]

MODEL_TYPES: Final = ("llama", "qwen2", "qwen3")
DEFAULT_THETA: Final = 10_000.0
DEFAULT_EPS: Final = 1e-6
QWEN3_HEAD_DIM: Final = 128


class CannotRun(Exception):
    """Why a model cannot be run, in words for the middle of a sentence."""


def config_from_hf(hf: Json, generation: Json, name: str) -> ModelConfig:
    """The shape of the model. `generation`: its generation_config.json, empty where it has none.

    Raises CannotRun for what our forward pass does not do, KeyError, TypeError or ValueError for what is no config.
    """
    kind = hf["model_type"]
    if kind not in MODEL_TYPES:
        raise CannotRun(f"its type is {kind}, and only {', '.join(MODEL_TYPES)} can be run")
    _refuse_unknown(hf)
    heads, hidden_size = int(hf["num_attention_heads"]), int(hf["hidden_size"])
    head_dim = hf.get("head_dim") or (QWEN3_HEAD_DIM if kind == "qwen3" else hidden_size // heads)
    scaling, factor = _rope_scaling(hf)
    bias = bool(hf.get("attention_bias", False))
    return ModelConfig(
        name=name,
        vocab_size=int(hf["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=int(hf["intermediate_size"]),
        num_layers=int(hf["num_hidden_layers"]),
        num_heads=heads,
        num_kv_heads=int(hf.get("num_key_value_heads") or heads),
        head_dim=int(head_dim),
        max_model_len=int(hf["max_position_embeddings"] * factor),
        rope_theta=_rope_theta(hf),
        rms_norm_eps=float(hf.get("rms_norm_eps", DEFAULT_EPS)),
        tie_word_embeddings=bool(hf.get("tie_word_embeddings", False)),
        eos_token_ids=_token_ids(generation.get("eos_token_id", hf.get("eos_token_id"))),
        bos_token_id=next(iter(_token_ids(hf.get("bos_token_id"))), None),
        qkv_bias=bias or kind == "qwen2",  # Qwen2 always has them and says nothing
        attention_out_bias=bias and kind != "qwen2",
        qk_norm=kind == "qwen3",
        rope_scaling=scaling,
    )


def _refuse_unknown(hf: Json) -> None:
    """CannotRun for what changes the forward pass in ways that ours does not have."""
    if hf.get("hidden_act", "silu") != "silu":
        raise CannotRun(f"its activation is {hf['hidden_act']}, and only silu is known")
    if hf.get("mlp_bias"):
        raise CannotRun("its feed-forward layers have biases")
    if hf.get("quantization_config"):
        raise CannotRun("its weights are quantised")
    sliding = hf.get("use_sliding_window") and hf.get("sliding_window") is not None
    if sliding or "sliding_attention" in (hf.get("layer_types") or ()):
        raise CannotRun("its attention has a sliding window")
    if (_rope(hf).get("partial_rotary_factor") or hf.get("partial_rotary_factor") or 1.0) != 1.0:
        raise CannotRun("only a part of its heads is turned by position")


def _rope(hf: Json) -> Json:
    """What is said of rotary positions: `rope_parameters` from transformers 5 on, `rope_scaling` before."""
    return dict(hf.get("rope_parameters") or hf.get("rope_scaling") or {})


def _rope_theta(hf: Json) -> float:
    return float(_rope(hf).get("rope_theta") or hf.get("rope_theta") or DEFAULT_THETA)


def _rope_scaling(hf: Json) -> tuple[RopeScaling | None, float]:
    """The scaling, and by what the model's longest text grows with it."""
    rope = _rope(hf)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None, 1.0
    if kind == "linear":
        return RopeScaling("linear", float(rope["factor"])), float(rope["factor"])
    if kind == "llama3":
        scaling = RopeScaling(
            "llama3",
            float(rope["factor"]),
            float(rope["low_freq_factor"]),
            float(rope["high_freq_factor"]),
            int(rope["original_max_position_embeddings"]),
        )
        return scaling, 1.0  # its config counts the longer text already
    raise CannotRun(f"its positions are scaled in the {kind} way")


def _token_ids(told: int | list[int] | None) -> tuple[int, ...]:
    if told is None:
        return ()
    return tuple(map(int, told)) if isinstance(told, list) else (int(told),)
