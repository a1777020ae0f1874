"""Builds a model's tokenizer from the metadata of its GGUF file: byte-level BPE, with the splitting the model was
trained with.

How text is cut before merging is only named in the file (`tokenizer.ggml.pre`). SmolLM's cut sets every digit apart
before GPT-2's pattern runs, as llama.cpp does. transformers 5.24 ignores the name: its tokens differ where several
blanks stand before a digit, and for numerals such as a half.
"""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from kvxray_engine.errors import UserError
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.tokenizer import BpeTokenizer, ChatTemplate

# Types of tokens in GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
CONTROL, USER_DEFINED = 3, 4


def gguf_tokenizer(file: GgufFile) -> BpeTokenizer:
    """The tokenizer of this model. UserError when it is of a kind that cannot be built."""
    kind = file.field("tokenizer.ggml.model")
    if kind != "gpt2":
        raise UserError(
            f"{file.path} has a tokenizer of the kind {kind}, which cannot be read yet: name another model."
        )
    if file.optional_field("tokenizer.ggml.add_bos_token"):
        raise UserError(f"{file.path} wants a token before every text, which cannot be done yet: name another model.")
    tokens: list[str] = file.field("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in file.field("tokenizer.ggml.merges")]
    backend = tokenizers.Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = _splitting(file)
    backend.decoder = decoders.ByteLevel()
    _add_special(backend, tokens, file.field("tokenizer.ggml.token_type"))
    eos_token_ids = frozenset({int(file.field("tokenizer.ggml.eos_token_id"))})
    return BpeTokenizer(backend, eos_token_ids, ChatTemplate(file.field("tokenizer.chat_template")))


def _splitting(file: GgufFile) -> Any:
    """The cut before merging, by its name in the file."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    name = file.field("tokenizer.ggml.pre")
    if name == "gpt-2":
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    raise UserError(f"{file.path} splits text the way of {name}, which is not known yet: name another model.")


def _add_special(backend: tokenizers.Tokenizer, tokens: list[str], types: list[int]) -> None:
    special = [t for t, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    defined = [t for t, kind in zip(tokens, types, strict=True) if kind == USER_DEFINED]
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    backend.add_tokens([AddedToken(t, normalized=False, special=False) for t in defined])
