"""Text to tokens and back. Knows no model and no GGUF; what a token's bytes are is all that decoding rests on.

Both tokenizers are byte level: a token stands for bytes, not for characters, so that one character can be spread over
several tokens. `TextStream` turns tokens that come one by one into text that never shows half a character.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import tokenizers
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kvxray_engine.errors import UserError

Message = Mapping[str, str]  # "role" and "content"


class Tokenizer(Protocol):
    """What the engine needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Tokens of a text; the names of special tokens in it become those tokens.

        `add_special_tokens`: with those that the model wants around every text, such as one at its beginning.
        """
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for; none for a special token."""
        ...

    def token_text(self, token_id: int) -> str:
        """A token by itself, to be read: the name of a special token, `bytes:\\x..` where its bytes are no text."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, without the special ones; bytes that are no UTF-8 become U+FFFD."""
        ...

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        """Tokens of a conversation, up to where the assistant's answer begins. UserError when it cannot be rendered."""
        ...


class TextStream:
    """Decodes tokens as they come: the pieces joined are `decode` of all tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token_ids: Sequence[int]) -> str:
        """The text that these tokens complete; the bytes of an unfinished character wait."""
        return self._decoder.decode(b"".join(map(self._tokenizer.token_bytes, token_ids)))

    def finish(self) -> str:
        """What still waits, at the end of the tokens."""
        return self._decoder.decode(b"", final=True)


class ChatTemplate:
    """A model's own way of writing a conversation, a Jinja template as in Hugging Face and GGUF files.

    `names`: special tokens that the template may call by their role, such as bos_token.
    """

    def __init__(self, source: str, names: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._names = dict(names or {})
        # Sandboxed: the template came with a file from elsewhere.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
        environment.filters["tojson"] = _to_json
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise UserError(f"The model's chat template cannot be used ({error}): use /v1/completions.") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as text, up to where the assistant's answer begins."""
        try:
            return self._template.render(self._names, messages=messages, add_generation_prompt=True)
        except Exception as error:  # a template is a program from elsewhere: it may fail in any way
            raise UserError(f"The model's chat template does not take these messages: {error}.") from error


class BpeTokenizer:
    """Byte-level byte-pair encoding, by the `tokenizers` library."""

    def __init__(
        self, backend: tokenizers.Tokenizer, eos_token_ids: frozenset[int], template: ChatTemplate | None
    ) -> None:
        self.vocab_size: int = backend.get_vocab_size()
        self.eos_token_ids = eos_token_ids
        self._backend = backend
        self._template = template
        self._bytes = _bytes_of_tokens(backend)
        added = backend.get_added_tokens_decoder()
        self._special = {token_id: token.content for token_id, token in added.items() if token.special}

    @classmethod
    def load(cls, folder: Path, eos_token_ids: frozenset[int]) -> BpeTokenizer:
        """Read tokenizer.json and chat_template.jinja. UserError when they are not there or not readable."""
        try:
            backend = tokenizers.Tokenizer.from_str((folder / "tokenizer.json").read_text())
            return cls(backend, eos_token_ids, ChatTemplate((folder / "chat_template.jinja").read_text()))
        except UserError:
            raise
        except Exception as error:  # the library raises bare Exception
            raise UserError(
                f"The tokenizer in {folder} cannot be read ({error}): delete the folder and fetch the model again."
            ) from error

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        (folder / "tokenizer.json").write_text(self._backend.to_str())
        if self._template is not None:
            (folder / "chat_template.jinja").write_text(self._template.source)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        sound = text.encode("utf-8", "replace").decode()  # JSON can carry half of a surrogate pair
        return list(self._backend.encode(sound, add_special_tokens=add_special_tokens).ids)

    def token_bytes(self, token_id: int) -> bytes:
        # Models are often padded: their last ids have no token.
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def token_text(self, token_id: int) -> str:
        return self._special.get(token_id) or _readable(self.token_bytes(token_id))

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        if self._template is None:
            raise UserError("This model has no chat template: use /v1/completions.")
        return self.encode(self._template.render(messages))


class ByteTokenizer:
    """A token for each byte and 16 special ones: no files, any text. Conversations are written as ChatML."""

    SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|reserved_{i}|>" for i in range(13)))

    def __init__(self) -> None:
        self.vocab_size: int = 256 + len(self.SPECIAL)
        self._special_ids = {name: 256 + i for i, name in enumerate(self.SPECIAL)}
        self.eos_token_ids = frozenset({self._special_ids["<|im_end|>"]})
        self._special_names = re.compile("(" + "|".join(map(re.escape, self.SPECIAL)) + ")")

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        token_ids: list[int] = []
        for part in self._special_names.split(text):
            token_ids += [self._special_ids[part]] if part in self._special_ids else part.encode("utf-8", "replace")
        return token_ids

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""

    def token_text(self, token_id: int) -> str:
        return _readable(bytes([token_id])) if token_id < 256 else self.SPECIAL[token_id - 256]

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(i for i in token_ids if i < 256).decode("utf-8", "replace")

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
        return self.encode("".join(turns) + "<|im_start|>assistant\n")


def _readable(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)


def _to_json(value: object, indent: int | None = None) -> str:
    """Jinja's own filter escapes for HTML, which no template of a model means."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> None:
    """What templates call to refuse a conversation."""
    raise TemplateError(message)


def _bytes_of_tokens(backend: tokenizers.Tokenizer) -> list[bytes]:
    """The bytes of every token id, none for special tokens and for ids without a token."""
    byte_of = {character: byte for byte, character in enumerate(byte_alphabet())}
    vocab = backend.get_vocab()
    table = [b""] * (max(vocab.values(), default=-1) + 1)
    added = backend.get_added_tokens_decoder()
    for token, token_id in vocab.items():
        if token_id not in added:
            table[token_id] = bytes(byte_of[character] for character in token)
        elif not added[token_id].special:
            table[token_id] = token.encode()
    return table


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's encoder)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    stand_ins = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(stand_ins)) for byte in range(256)]
