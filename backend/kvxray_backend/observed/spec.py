"""An engine of somebody else's to be watched: where its events and its metrics are, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from kvxray_engine.errors import UserError
from kvxray_engine.stream.residency_state import StoreSemantics
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from kvxray_backend.observed.spec_checks import (
    MAX_TEXT,
    check_address,
    check_events,
    check_label_names,
    check_name,
    check_replay,
    is_http,
    is_socket,
)
from kvxray_backend.sources.foreign.endpoint import MAX_RANKS, of_ranks, parse_endpoint

Make = Literal["vllm", "sglang", "trtllm", "dynamo", "router", "other"]
Role = Literal["both", "prefill", "decode"]
Expand = Literal["none", "dns"]
MAX_EXPANDED_NAME: Final = 47
"""So that the address fits behind it."""


def _plain_texts(values: Any) -> Any:
    """YAML takes `dp_rank: 0` for a number; as a label it is a text."""
    if not isinstance(values, Mapping):
        return values
    return {name: str(one) if type(one) in (int, float) else one for name, one in values.items()}


Labels = Annotated[dict[str, str], BeforeValidator(_plain_texts)]


class BadSpec(UserError):
    """A description of an engine that cannot be; `field`: which of its fields is to blame, empty: none alone."""

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


class ObserveSpec(BaseModel):
    """One engine. Without `events` it is known by its metrics alone. What its fields may be stands in `spec_checks`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="The name of the engine in the API and on the page.")
    make: Make = Field(default="vllm", description="What it is: vllm, sglang, trtllm, dynamo, router or other.")
    events: str | None = Field(default=None, description="Where its cache events are, for example tcp://host:5557.")
    replay: str | None = Field(default=None, description="Where it answers replay, for example tcp://host:5558.")
    topic: str = Field(default="", max_length=MAX_TEXT, description="Only topics that begin so.")
    ranks: int = Field(default=1, ge=1, le=MAX_RANKS, description="Data-parallel ranks, each one port further.")
    bind: bool = Field(default=False, description="Listen at `events` instead of dialling it.")
    metrics: str | None = Field(default=None, description="URL of its metrics page.")
    prometheus: str | None = Field(default=None, description="URL of a Prometheus that has its metrics.")
    match: Labels = Field(default_factory=dict, description="Labels that choose the engine in Prometheus.")
    every_s: float = Field(default=5.0, ge=1.0, le=300.0, description="Seconds between two readings of its metrics.")
    role: Role = Field(default="both", description="both, prefill or decode; a decode engine tells no events.")
    labels: Labels = Field(default_factory=dict, description="cluster, namespace, pod, node, model and others.")
    store_semantics: StoreSemantics = Field(
        default="unknown", description="What a repeated store means: copies, reuse (a hit), or unknown."
    )
    num_blocks: int | None = Field(default=None, gt=0, lt=1 << 32, description="Blocks of its cache, if none tells.")
    token_file: str | None = Field(default=None, max_length=MAX_TEXT, description="File of a token for its metrics.")
    token_env: str | None = Field(default=None, max_length=MAX_TEXT, description="Variable of a token, likewise.")
    ca_file: str | None = Field(default=None, max_length=MAX_TEXT, description="Authorities of its certificates.")
    expand: Expand = Field(
        default="none", description="dns: an engine for each address that the host's name resolves to."
    )

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return check_name(name)

    @field_validator("events", "replay", "metrics", "prometheus", "token_file", "token_env", "ca_file", mode="before")
    @classmethod
    def _nothing_is_none(cls, text: Any) -> Any:
        return (text.strip() or None) if isinstance(text, str) else text

    @field_validator("ranks", "num_blocks", "every_s", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any) -> Any:
        # To Python yes is 1, and no is 0.
        if isinstance(value, bool):
            raise ValueError("it is a number, not yes or no")
        return value

    @field_validator("events")
    @classmethod
    def _can_be_heard(cls, events: str | None) -> str | None:
        return check_events(events) if events is not None else None

    @field_validator("replay")
    @classmethod
    def _can_be_asked(cls, replay: str | None) -> str | None:
        return check_replay(replay) if replay is not None else None

    @field_validator("metrics", "prometheus")
    @classmethod
    def _can_be_read(cls, url: str | None) -> str | None:
        return check_address(url) if url is not None else None

    @field_validator("labels", "match")
    @classmethod
    def _are_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        return check_label_names(labels)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        self._check_what_is_told()
        self._check_stream()
        if self.prometheus is not None and not self.match:
            raise BadSpec(
                "Say with match which engine of that Prometheus is meant, for example pod and namespace.", "match"
            )
        if self.match and self.prometheus is None:
            raise BadSpec(
                "match chooses among what a Prometheus has; give prometheus too, or leave match out.", "match"
            )
        if self.token_file is not None and self.token_env is not None:
            raise BadSpec("A token is in a file or in an environment variable: give one of the two.", "token_env")
        if self.expand == "dns":
            self._check_expansion()
        return self

    def _check_what_is_told(self) -> None:
        if self.events is None and self.metrics is None and self.prometheus is None:
            raise BadSpec(
                f"Nothing of {self.name} could be seen: say where its events are, or its metrics, or both.", "events"
            )
        if self.metrics is not None and self.prometheus is not None:
            raise BadSpec("Read metrics from the engine or from a Prometheus: give one of the two.", "prometheus")

    def _check_stream(self) -> None:
        events = self.events
        if events is None or not is_socket(events):
            for field in ("replay", "bind"):
                if getattr(self, field):
                    raise BadSpec(f"{field} is about a socket of events, and there is none.", field)
            if self.ranks > 1:
                raise BadSpec("Ranks are told apart by the ports of their sockets, and there is no socket.", "ranks")
        if events is not None and is_http(events) and self.make != "trtllm":
            raise BadSpec("Only TensorRT-LLM is asked for its events over HTTP; the others publish them.", "events")
        if events is not None and events.startswith("file:") and self.make != "dynamo":
            raise BadSpec("Only Dynamo's router writes its events to a file; the others publish them.", "events")
        if events is not None and is_socket(events):
            self._check_ranks("events", events)
            if self.replay is not None:
                self._check_ranks("replay", self.replay)

    def _check_ranks(self, field: str, endpoint: str) -> None:
        try:
            of_ranks(parse_endpoint(endpoint), self.ranks)
        except UserError as error:
            raise BadSpec(str(error), field) from error

    def _check_expansion(self) -> None:
        if len(self.name) > MAX_EXPANDED_NAME:
            raise BadSpec(
                f"With expand the address follows the name, which may have {MAX_EXPANDED_NAME} characters.", "name"
            )
        if self.prometheus is not None or self.bind or not (self.events or self.metrics):
            raise BadSpec(
                "expand is for engines that are dialled: give events or metrics with a host's name.", "expand"
            )
        if any(url is not None and url.startswith("https:") for url in (self.metrics, self.events)):
            raise BadSpec("With expand addresses take the place of the name, which https does not bear.", "metrics")


Model = TypeVar("Model", bound=BaseModel)


def read_spec(raw: Any) -> ObserveSpec:
    """Out of plain data from outside. Raises `BadSpec`, one sentence."""
    return read_model(ObserveSpec, raw)


def read_model(model: type[Model], raw: Any) -> Model:
    """Raises `BadSpec`, one sentence that names the field."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _first_of(error) from error


def _first_of(error: ValidationError) -> BadSpec:
    first = error.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        return BadSpec("An engine is described by names and values, as in docs/attach.md.")
    place = ".".join(str(part)[:80] for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ").rstrip(".")
    if first["type"] == "extra_forbidden":
        reason = "there is no such field"
    if first["type"] == "missing":
        reason = "it is missing"
    return BadSpec(f"Mend {place}: {reason[:1].lower()}{reason[1:]}.", str(first["loc"][0])[:80])
