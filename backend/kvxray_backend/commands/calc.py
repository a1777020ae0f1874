"""Say how much memory a KV cache takes, and how many requests of a length fit a GPU beside the model's weights."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any, Final

from kvxray_engine.calc import DTYPE_BITS, GB, GIB, KvShape, kv_bytes, num_fitting, weight_bytes
from kvxray_engine.errors import UserError
from kvxray_engine.model_shapes import DTYPE_NAMES, ModelShape, find_model

SUMMARY: Final = "say how much memory a KV cache takes"

UNITS: Final = {"gb": GB, "gib": GIB, "mb": 10**6, "mib": 1 << 20}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="a known model, such as llama-3.1-8b, or the path of a config.json")
    parser.add_argument("--layers", type=_positive, help="layers, when no model is named")
    parser.add_argument("--kv-heads", type=_positive, help="kv heads of a layer, when no model is named")
    parser.add_argument("--head-dim", type=_positive, help="size of a head (head_dim), when no model is named")
    parser.add_argument("--heads", type=_positive, help="query heads, to compare with MHA, when no model is named")
    parser.add_argument(
        "--dtype",
        type=_dtype,
        help=f"type of keys and values: {', '.join(DTYPE_BITS)} (int8 and int4 with their scales); else the model's",
    )
    parser.add_argument("--tokens", type=_positive, default=4096, help="tokens of one sequence")
    parser.add_argument("--batch", type=_positive, default=1, help="sequences at once")
    parser.add_argument(
        "--gpu-memory", type=_size, help="memory of one GPU, such as 80GiB: says how many sequences fit"
    )
    parser.add_argument(
        "--gpu-memory-utilization", type=_share, default=0.9, help="share of that memory for weights and cache"
    )
    parser.add_argument("--weights", type=_size, help="size of the weights, such as 16GB, when it is not known")
    parser.add_argument("--block-size", type=_positive, default=16, help="tokens of a block: sequences take whole ones")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")


def run(options: argparse.Namespace) -> int:
    model = _model(options)
    result = _footprint(model, options)
    if options.gpu_memory is not None:
        result["gpu"] = _fit(model, result["dtype"], options)
    sys.stdout.write(json.dumps(result, indent=2) + "\n" if options.json else "".join(_sentences(result)))
    return 0


def _model(options: argparse.Namespace) -> ModelShape:
    by_hand = (options.layers, options.kv_heads, options.head_dim)
    if options.model is not None:
        if any(one is not None for one in (*by_hand, options.heads)):
            raise UserError("Name a model or give --layers, --kv-heads and --head-dim, not both.")
        return find_model(options.model)
    if None in by_hand:
        raise UserError("Say which model: --model NAME, --model config.json, or --layers, --kv-heads and --head-dim.")
    if options.heads is not None and options.heads % options.kv_heads:
        raise UserError("Each kv head serves the same number of query heads: --heads must be a multiple of --kv-heads.")
    return ModelShape("", KvShape(*by_hand, heads=options.heads), "fp16", None)


def _footprint(model: ModelShape, options: argparse.Namespace) -> dict[str, Any]:
    kv, dtype = model.kv, options.dtype or model.dtype
    total = kv_bytes(kv, dtype, options.tokens, options.batch)
    mha = kv.as_mha()
    mha_total = kv_bytes(mha, dtype, options.tokens, options.batch) if mha else None
    return {
        "model": model.name or None,
        "layers": kv.layers + kv.window_layers,
        "window_layers": kv.window_layers,
        "window": kv.window if kv.window_layers else None,
        "heads": kv.heads,
        "kv_heads": None if kv.latent_dim else kv.kv_heads,
        "head_dim": None if kv.latent_dim else kv.head_dim,
        "latent_dim": kv.latent_dim or None,
        "dtype": dtype,
        "tokens": options.tokens,
        "batch": options.batch,
        "bytes_per_token": kv_bytes(kv, dtype, 1),
        "bytes": total,
        "gb": total / GB,
        "gib": total / GIB,
        "mha_bytes": mha_total,
        "mha_gb": mha_total and mha_total / GB,
        "mha_gib": mha_total and mha_total / GIB,
        "ratio_mha": mha_total and mha_total / total,
    }


def _fit(model: ModelShape, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    weights = options.weights
    if weights is None:
        if model.parameters is None:
            raise UserError(
                "How large the weights are does not follow from this shape: say it, such as --weights 16GB."
            )
        weights = weight_bytes(model.parameters, model.dtype)
    usable = int(options.gpu_memory * options.gpu_memory_utilization)
    room = max(0, usable - weights)
    return {
        "memory_bytes": options.gpu_memory,
        "usable_bytes": usable,
        "parameters": model.parameters,
        "weights_bytes": weights,
        "kv_bytes": room,
        "block_size": options.block_size,
        "num_blocks": room // kv_bytes(model.kv, dtype, options.block_size),
        "requests": num_fitting(room, model.kv, dtype, options.tokens, options.block_size),
    }


def _sentences(result: dict[str, Any]) -> list[str]:
    lines = [
        f"{result['model'] or 'KV cache'}: {_shape(result)}, {result['dtype']}\n",
        f"a token: {_size_text(result['bytes_per_token'])}\n",
        f"{result['batch']} x {result['tokens']:,} tokens: {_size_text(result['bytes'])}\n",
    ]
    if result["mha_bytes"] is not None and result["ratio_mha"] > 1:
        lines.append(
            f"with MHA, {result['heads']} kv heads: {_size_text(result['mha_bytes'])}, {result['ratio_mha']:g} times\n"
        )
    if "gpu" in result:
        lines.append(_gpu(result["gpu"], result["tokens"]))
    return lines


def _shape(result: dict[str, Any]) -> str:
    what = (
        f"a latent vector of {result['latent_dim']} (MLA)"
        if result["latent_dim"]
        else f"{result['kv_heads']} kv heads of {result['head_dim']}"
    )
    heads = f" for {result['heads']} query heads" if result["heads"] and not result["latent_dim"] else ""
    window = f", {result['window_layers']} of them keep {result['window']:,} tokens" if result["window_layers"] else ""
    return f"{result['layers']} layers{window}, {what}{heads}"


def _gpu(gpu: dict[str, Any], tokens: int) -> str:
    if not gpu["kv_bytes"]:
        return f"The weights alone, {_size_text(gpu['weights_bytes'])}, do not fit what may be used of the GPU.\n"
    return (
        f"beside {_size_text(gpu['weights_bytes'])} of weights there is room for {gpu['num_blocks']:,} blocks of "
        f"{gpu['block_size']} tokens: {gpu['requests']:,} requests of {tokens:,} tokens at once\n"
    )


def _size_text(count: int) -> str:
    return f"{count:,} bytes = {count / GB:.2f} GB = {count / GIB:.2f} GiB" if count >= 10**7 else f"{count:,} bytes"


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return number


def _dtype(text: str) -> str:
    if text.lower() not in DTYPE_NAMES:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(DTYPE_BITS)}")
    return DTYPE_NAMES[text.lower()]


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share above 0 and up to 1")
    return share


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(gb|gib|mb|mib)", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 80GiB or 16GB")
    return int(float(match[1]) * UNITS[match[2]])
