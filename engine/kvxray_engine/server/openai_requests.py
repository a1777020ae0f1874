"""The bodies of OpenAI's completions and chat completions as this server takes them, with vLLM's additions.

What changes the answer and cannot be done is refused by name; what merely describes the request is taken and left
alone. Nothing is silently ignored that a client could have meant. Knows JSON and limits; no engine, no HTTP.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, field_validator, model_validator

from kvxray_engine.errors import UserError

MAX_CHOICES: Final = 128
MAX_SEQUENCES: Final = 256  # of one request: prompts times choices
MAX_STOP_STRINGS: Final = 16
MAX_STOP_LENGTH: Final = 256
MAX_LOGPROBS: Final = 20
MAX_NAME: Final = 128

# Fields of other servers: values that ask for nothing special. Any other value is refused.
_NEUTRAL: Final[dict[str, tuple[object, ...]]] = {
    "add_generation_prompt": (True,),
    "audio": (),
    "best_of": (1,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_logprobs": (),
    "reasoning_effort": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "suffix": ("",),
    "tool_choice": ("none",),
    "tools": ([],),
    "top_k": (0, -1),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "web_search_options": (),
}

# Taken and left alone: they say who asks and why, not what the answer should be.
_DESCRIPTIVE: Final = frozenset(
    {"metadata", "prompt_cache_key", "request_id", "safety_identifier", "service_tier", "store", "user"}
)

# Where a field may be one of several things, a checker complains about each of them.
_ONE_OF_SEVERAL: Final = {
    "prompt": "prompt must be a text, a list of token ids, or a list of either, and no list may be empty.",
    "content": "The content of a message must be a text or a list of parts of type text.",
    "stop": f"Give at most {MAX_STOP_STRINGS} stop strings of 1 to {MAX_STOP_LENGTH} characters.",
}

TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1)]


class StreamOptions(BaseModel):
    """`include_usage`: a last chunk with the token counts."""

    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool = False


class GenerationBody(BaseModel):
    """What both kinds of request have in common."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    # vLLM's additions
    cache_salt: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = None
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    ignore_eos: bool = False
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_STOP_STRINGS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_cannot_be_done(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ValueError("Send one JSON object.")
        kept = {}
        for name, value in body.items():
            if name in _DESCRIPTIVE:
                continue
            if name not in _NEUTRAL:
                kept[name] = value
            elif value is not None and not any(_same(value, neutral) for neutral in _NEUTRAL[name]):
                raise ValueError(f"This server cannot do {name} yet: leave it out.")
        return kept

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: str | list[str] | None) -> str | list[str] | None:
        strings = [stop] if isinstance(stop, str) else stop or []
        if len(strings) > MAX_STOP_STRINGS or not all(0 < len(text) <= MAX_STOP_LENGTH for text in strings):
            raise ValueError("too many, too long, or empty")
        return stop

    @model_validator(mode="after")
    def _check_stream_options(self) -> GenerationBody:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream to be true.")
        return self

    @property
    def num_choices(self) -> int:
        return self.n or 1

    @property
    def num_logprobs(self) -> int | None:
        """How many of the most likely tokens to report at each place; None = report nothing."""
        return None

    @property
    def stop_strings(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(GenerationBody):
    """POST /v1/completions. A prompt is text or tokens, or a list of either."""

    prompt: str | TokenIds | Annotated[list[str | TokenIds], Field(min_length=1, max_length=MAX_SEQUENCES)]
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    @model_validator(mode="after")
    def _check_sequences(self) -> CompletionBody:
        if len(self.prompts) * self.num_choices > MAX_SEQUENCES:
            raise ValueError(f"Prompts times n must not be more than {MAX_SEQUENCES}.")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return [prompt for prompt in self.prompt if not isinstance(prompt, int)]

    @property
    def num_logprobs(self) -> int | None:
        return self.logprobs


class TextPart(BaseModel):
    """A part of a message; only text can be read."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        parts = self.content or ""
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)

    @property
    def template_role(self) -> str:
        """OpenAI's newer name for system messages is not known to the templates of open models."""
        return "system" if self.role == "developer" else self.role


class ChatBody(GenerationBody):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    @model_validator(mode="after")
    def _check_logprobs(self) -> ChatBody:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true.")
        return self

    @property
    def num_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class BadBody(UserError):
    """A body that cannot be taken: one sentence, and the field that is wrong where it is one."""

    def __init__(self, sentence: str, param: str | None) -> None:
        super().__init__(sentence)
        self.param = param


_Body = TypeVar("_Body", bound=GenerationBody)


def parse_body(kind: type[_Body], raw: bytes) -> _Body:
    """The body of a request. BadBody when it cannot be taken."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise _bad_body(error) from error


def _bad_body(error: ValidationError) -> BadBody:
    """The first mistake as one sentence."""
    first = error.errors(include_url=False, include_input=False)[0]
    param = str(first["loc"][0]) if first["loc"] else None
    for field, sentence in _ONE_OF_SEVERAL.items():
        if field in first["loc"] and first["type"] != "missing":
            return BadBody(sentence, param)
    path = ".".join(map(str, first["loc"]))
    what = first["msg"].rstrip(".")
    if first["type"] == "value_error":
        return BadBody(str(first["ctx"]["error"]), param)
    if first["type"] == "json_invalid":
        return BadBody(f"The body is not JSON: {what}.", None)
    if first["type"] == "extra_forbidden":
        return BadBody(f"This server does not know {path}: leave it out.", param)
    if first["type"] == "missing":
        return BadBody(f"{path} is missing.", param)
    return BadBody(f"{path}: {what[:1].lower()}{what[1:]}.", param)


def _same(value: object, neutral: object) -> bool:
    """Equal, and true is not 1."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
