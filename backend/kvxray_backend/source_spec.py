"""How one engine to follow is named in the settings: its endpoints, and what is kept of it."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from kvxray_backend.quantities import parse_age, parse_size
from kvxray_backend.setting_urls import checked_url, is_port
from kvxray_backend.source_name import is_source_name

Age = Annotated[int | None, BeforeValidator(parse_age)]
"""Seconds, written as 7d; None, written none: no limit."""
Size = Annotated[int | None, BeforeValidator(parse_size)]
"""Bytes, written as 10GB."""
_ENDPOINT: Final = re.compile(r"(tcp://[^\s/]+:[0-9]+|ipc://\S+|inproc://\S+)")


class SourceSpec(BaseModel):
    """One engine to follow: where its events, its replay socket and its own HTTP API are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="The name of the source in the API and on the page.")
    events: str = Field(description="ZMQ endpoint of its events, for example tcp://127.0.0.1:5570.")
    replay: str = Field(description="ZMQ endpoint that answers replay and snapshot requests.")
    api: str | None = Field(default=None, description="Base URL of the engine's own API; None where it has none.")

    retention_age: Age = Field(default=None, description="How long its events are kept, where not as all others.")
    retention_size: Size = Field(default=None, description="How much of its history is kept at most.")

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not is_source_name(name):
            raise ValueError("a source's name is up to 63 letters, digits, dots, dashes and underscores")
        return name

    @field_validator("events", "replay")
    @classmethod
    def _zmq_endpoint(cls, endpoint: str) -> str:
        if not _ENDPOINT.fullmatch(endpoint):
            raise ValueError(f"{endpoint!r} is not an endpoint such as tcp://127.0.0.1:5570 or ipc:///tmp/events")
        if endpoint.startswith("tcp://") and not is_port(endpoint.rpartition(":")[2]):
            raise ValueError(f"the port of {endpoint!r} is not one from 1 to 65535")
        return endpoint

    @field_validator("api")
    @classmethod
    def _http_url(cls, url: str | None) -> str | None:
        return checked_url(url).rstrip("/") if url is not None else None
