"""Builds a model's tokenizer from the metadata of its GGUF file: byte-level BPE, with the splitting the model was
trained with.

How text is cut before merging is only named in the file (`tokenizer.ggml.pre`); the names are llama.cpp's. SmolLM's cut
sets every digit apart before GPT-2's pattern runs, as llama.cpp does. transformers 5.24 ignores that name: its tokens
differ where several blanks stand before a digit, and for numerals such as a half.
"""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from kvxray_engine.errors import UserError
from kvxray_engine.models.gguf_weights import GgufFile
from kvxray_engine.tokenizer import BpeTokenizer, ChatTemplate

# Types of tokens in GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
CONTROL, USER_DEFINED = 3, 4

# Contractions, words with what precedes them, numerals, punctuation, line ends, blanks.
_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMERALS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3_CUT = _CUT.replace("NUMERALS", r"\p{N}{1,3}")
QWEN2_CUT = _CUT.replace("NUMERALS", r"\p{N}")


def gguf_tokenizer(file: GgufFile) -> BpeTokenizer:
    """The tokenizer of this model. UserError when it is of a kind that cannot be built."""
    kind = file.field("tokenizer.ggml.model")
    if kind != "gpt2":
        raise UserError(
            f"{file.path} has a tokenizer of the kind {kind}, which cannot be read yet: name another model."
        )
    tokens: list[str] = file.field("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in file.field("tokenizer.ggml.merges")]
    # Llama 3 takes a word that is a token as it is, also where its merges would not lead there.
    whole_words = file.field("tokenizer.ggml.pre") == "llama-bpe"
    vocab = {token: i for i, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole_words))
    backend.pre_tokenizer = _splitting(file)
    if file.field("tokenizer.ggml.pre") == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()
    _add_special(backend, tokens, file.field("tokenizer.ggml.token_type"))
    names = _names(file, tokens)
    if _begins_with_bos(file):
        _prepend(backend, names.get("bos_token"), vocab)
    template = file.optional_field("tokenizer.chat_template")
    return BpeTokenizer(
        backend, frozenset(file.eos_token_ids()), None if template is None else ChatTemplate(template, names)
    )


def _splitting(file: GgufFile) -> Any:
    """The cut before merging, by its name in the file."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    name = file.field("tokenizer.ggml.pre")
    if name == "gpt-2":
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in ("llama-bpe", "qwen2"):
        cut = Regex(LLAMA3_CUT if name == "llama-bpe" else QWEN2_CUT)
        plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Split(cut, "isolated"), plain])
    raise UserError(f"{file.path} splits text the way of {name}, which is not known yet: name another model.")


def _names(file: GgufFile, tokens: list[str]) -> dict[str, str]:
    """Special tokens by the roles that chat templates call them by."""
    roles = {"bos_token": "bos_token_id", "eos_token": "eos_token_id", "pad_token": "padding_token_id"}
    ids = {role: file.optional_field(f"tokenizer.ggml.{field}") for role, field in roles.items()}
    return {role: tokens[token_id] for role, token_id in ids.items() if token_id is not None}


def _begins_with_bos(file: GgufFile) -> bool:
    """As llama.cpp decides it: Llama 3 does unless the file says otherwise."""
    told = file.optional_field("tokenizer.ggml.add_bos_token")
    return file.field("tokenizer.ggml.pre") == "llama-bpe" if told is None else bool(told)


def _prepend(backend: tokenizers.Tokenizer, bos: str | None, vocab: dict[str, int]) -> None:
    if bos is None:
        raise UserError("The model's tokenizer begins every text with a token that its file does not name.")
    backend.post_processor = processors.TemplateProcessing(
        single=[bos, "$A"], pair=[bos, "$A", "$B"], special_tokens=[(bos, vocab[bos])]
    )


def _add_special(backend: tokenizers.Tokenizer, tokens: list[str], types: list[int]) -> None:
    special = [t for t, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    defined = [t for t, kind in zip(tokens, types, strict=True) if kind == USER_DEFINED]
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    backend.add_tokens([AddedToken(t, normalized=False, special=False) for t in defined])
