"""Shapes of well-known models, and of any that comes with a config.json: for arithmetic, not for running them.

Known models are kept as the lines of their config.json that matter here, and read by the same code. No torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvxray_engine.calc import KvShape
from kvxray_engine.errors import UserError

Config = dict[str, Any]

DTYPE_NAMES: Final = {
    "float32": "fp32", "fp32": "fp32", "float16": "fp16", "fp16": "fp16", "half": "fp16", "bfloat16": "bf16",
    "bf16": "bf16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "int8": "int8",
    "int4": "int4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`parameters`: None where they do not follow from the config by what this file knows. `dtype`: of the weights."""

    name: str
    kv: KvShape
    dtype: str
    parameters: int | None


def find_model(name: str) -> ModelShape:
    """A known model by name, or one read from a config.json or the folder that holds it. Raises UserError."""
    path = Path(name)
    if path.is_dir():
        path /= "config.json"
    if path.is_file():
        return read_config(path)
    config = KNOWN.get(_plain(name))
    if config is None:
        raise UserError(
            f"There is no config.json at {name} and no known model of that name; known are: {', '.join(KNOWN)}."
        )
    return shape_of(_plain(name), config)


def read_config(path: Path) -> ModelShape:
    """Raises UserError when the file is not a config.json whose KV cache can be computed."""
    try:
        config = json.loads(path.read_text())
        # Models that also read images keep the language model's shape in a section of its own.
        return shape_of(path.parent.resolve().name, config.get("text_config", config))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UserError(f"The shape of a model cannot be read from {path}: {reason}.") from error


def shape_of(name: str, config: Config) -> ModelShape:
    """Reads the fields as Hugging Face names them. Raises KeyError or ValueError where one is missing or odd."""
    heads = _positive(config, "num_attention_heads")
    head_dim = _positive(config, "head_dim") if config.get("head_dim") else _positive(config, "hidden_size") // heads
    kv_heads = _positive(config, "num_key_value_heads") if config.get("num_key_value_heads") else heads
    layers, window_layers = _layers(config)
    window = _positive(config, "sliding_window") if window_layers else 0
    if layers + window_layers == 0:
        raise ValueError("none of its layers keeps keys and values")
    kv = KvShape(layers, kv_heads, head_dim, heads, window_layers, window, _latent(config))
    dtype = DTYPE_NAMES.get(config.get("dtype") or config.get("torch_dtype") or "", "fp16")
    return ModelShape(name, kv, dtype, _parameters(config, heads, kv_heads, head_dim))


def _layers(config: Config) -> tuple[int, int]:
    """Layers that keep all tokens, and layers that keep a window of them; others (linear attention) keep none."""
    layers = _positive(config, "num_hidden_layers")
    kinds = config.get("layer_types")
    if kinds:
        return kinds.count("full_attention"), kinds.count("sliding_attention")
    slides = config.get("model_type") == "mistral" and config.get("sliding_window")
    return (0, layers) if slides else (layers, 0)


def _latent(config: Config) -> int:
    if not config.get("kv_lora_rank"):
        return 0
    return _positive(config, "kv_lora_rank") + _positive(config, "qk_rope_head_dim")


def _parameters(config: Config, heads: int, kv_heads: int, head_dim: int) -> int | None:
    """Of a Llama-like model: embeddings, attention, gated feed-forward (one or several experts), norms."""
    kind = config.get("model_type")
    if kind not in ("llama", "mistral", "mixtral", "qwen2", "qwen3"):
        return None
    hidden, inner = _positive(config, "hidden_size"), _positive(config, "intermediate_size")
    queries, keys = heads * head_dim, kv_heads * head_dim
    attention = 2 * hidden * queries + 2 * hidden * keys
    if kind == "qwen2":
        attention += queries + 2 * keys  # biases
    if kind == "qwen3":
        attention += 2 * head_dim  # norms of queries and keys
    experts = config.get("num_local_experts") or 1
    router = hidden * experts if experts > 1 else 0
    layer = attention + experts * 3 * hidden * inner + router + 2 * hidden
    embeddings = (1 if config.get("tie_word_embeddings") else 2) * _positive(config, "vocab_size") * hidden
    return embeddings + _positive(config, "num_hidden_layers") * layer + hidden


def _positive(config: Config, field: str) -> int:
    value = config[field]
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} is {value!r}")
    return value


def _plain(name: str) -> str:
    """`meta-llama/Llama-2-70b-chat-hf` as `llama-2-70b`."""
    words = name.rsplit("/", 1)[-1].lower().split("-")
    return "-".join(word for word in words if word not in ("meta", "hf", "chat", "instruct"))


def _llama(
    layers: int, hidden: int, inner: int, heads: int, kv_heads: int, vocab: int, tied: bool = False, **more: Any
) -> Config:
    return {
        "model_type": "llama", "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": inner,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocab,
        "tie_word_embeddings": tied, "dtype": "bfloat16",
    } | more  # fmt: skip


_QWEN2: Final[Config] = {"model_type": "qwen2"}
_QWEN3: Final[Config] = {"model_type": "qwen3", "head_dim": 128}

KNOWN: Final[dict[str, Config]] = {
    "llama-2-7b": _llama(32, 4096, 11008, 32, 32, 32000, dtype="float16"),
    "llama-2-13b": _llama(40, 5120, 13824, 40, 40, 32000, dtype="float16"),
    "llama-2-70b": _llama(80, 8192, 28672, 64, 8, 32000, dtype="float16"),
    "llama-3-8b": _llama(32, 4096, 14336, 32, 8, 128256),
    "llama-3-70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "llama-3.1-8b": _llama(32, 4096, 14336, 32, 8, 128256),
    "llama-3.1-70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "llama-3.1-405b": _llama(126, 16384, 53248, 128, 8, 128256),
    "llama-3.2-1b": _llama(16, 2048, 8192, 32, 8, 128256, tied=True),
    "llama-3.2-3b": _llama(28, 3072, 8192, 24, 8, 128256, tied=True),
    "llama-3.3-70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "mistral-7b-v0.1": _llama(32, 4096, 14336, 32, 8, 32000, model_type="mistral", sliding_window=4096),
    "mistral-7b-v0.2": _llama(32, 4096, 14336, 32, 8, 32000, model_type="mistral"),
    "mistral-7b-v0.3": _llama(32, 4096, 14336, 32, 8, 32768, model_type="mistral"),
    "mixtral-8x7b-v0.1": _llama(32, 4096, 14336, 32, 8, 32000, model_type="mixtral", num_local_experts=8),
    "qwen2.5-0.5b": _llama(24, 896, 4864, 14, 2, 151936, tied=True, **_QWEN2),
    "qwen2.5-1.5b": _llama(28, 1536, 8960, 12, 2, 151936, tied=True, **_QWEN2),
    "qwen2.5-3b": _llama(36, 2048, 11008, 16, 2, 151936, tied=True, **_QWEN2),
    "qwen2.5-7b": _llama(28, 3584, 18944, 28, 4, 152064, **_QWEN2),
    "qwen2.5-14b": _llama(48, 5120, 13824, 40, 8, 152064, **_QWEN2),
    "qwen2.5-32b": _llama(64, 5120, 27648, 40, 8, 152064, **_QWEN2),
    "qwen2.5-72b": _llama(80, 8192, 29568, 64, 8, 152064, **_QWEN2),
    "qwen3-0.6b": _llama(28, 1024, 3072, 16, 8, 151936, tied=True, **_QWEN3),
    "qwen3-4b": _llama(36, 2560, 9728, 32, 8, 151936, tied=True, **_QWEN3),
    "qwen3-8b": _llama(36, 4096, 12288, 32, 8, 151936, **_QWEN3),
    "qwen3-14b": _llama(40, 5120, 17408, 40, 8, 151936, **_QWEN3),
    "qwen3-32b": _llama(64, 5120, 25600, 64, 8, 151936, **_QWEN3),
    "smollm2-135m": _llama(30, 576, 1536, 9, 3, 49152, tied=True),
    "smollm2-360m": _llama(32, 960, 2560, 15, 5, 49152, tied=True),
    "smollm2-1.7b": _llama(24, 2048, 8192, 32, 32, 49152, tied=True),
    "deepseek-v3": {
        "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
        "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "dtype": "bfloat16",
    },
}  # fmt: skip
