"""The tokenizer of a Hugging Face folder: tokenizer.json, and the template by which its model writes conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import tokenizers

from kvxray_engine.models.hf_config import CannotRun
from kvxray_engine.tokenizer import BpeTokenizer, ChatTemplate

TOKENIZER: Final = "tokenizer.json"
SETTINGS: Final = "tokenizer_config.json"
TEMPLATE: Final = "chat_template.jinja"

# Special tokens that templates call by their role.
_ROLES: Final = ("bos_token", "eos_token", "unk_token", "pad_token")


def read_hf_tokenizer(folder: Path, eos_token_ids: frozenset[int]) -> BpeTokenizer:
    """The tokenizer. Raises CannotRun when it is not there, not readable or not byte level."""
    try:
        backend = tokenizers.Tokenizer.from_str((folder / TOKENIZER).read_text())
        settings = json.loads((folder / SETTINGS).read_text()) if (folder / SETTINGS).exists() else {}
    except Exception as error:  # the library raises bare Exception
        raise CannotRun(f"its tokenizer cannot be read: {str(error).rstrip('.')}") from error
    backend.no_padding()
    backend.no_truncation()
    try:
        return BpeTokenizer(backend, eos_token_ids, _template(folder, settings))
    except KeyError as error:
        raise CannotRun(f"its tokenizer is not byte level: {error} stands for no byte") from error


def _template(folder: Path, settings: dict[str, Any]) -> ChatTemplate | None:
    names = {role: _content(settings[role]) for role in _ROLES if settings.get(role)}
    if (folder / TEMPLATE).exists():
        return ChatTemplate((folder / TEMPLATE).read_text(), names)
    source = settings.get("chat_template")
    if isinstance(source, list):  # several, by name
        source = {entry["name"]: entry["template"] for entry in source}.get("default")
    return None if source is None else ChatTemplate(source, names)


def _content(token: str | dict[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])
