"""How one webhook is named in the settings: where alerts are posted to, and how they are written there."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from kvxray_backend.setting_urls import checked_url
from kvxray_backend.source_name import is_source_name


class WebhookSpec(BaseModel):
    """Where alerts are posted to, and how they are written there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Its name on the page.")
    url: str = Field(description="http or https URL that takes a POST.", repr=False)
    secret: SecretStr = Field(default=SecretStr(""), description="Key that the body is signed with; empty: it is not.")
    template: str = Field(default="json", description="json, slack, or a file with a template of your own.")
    least: Literal["info", "warning", "critical"] = Field(
        default="info", description="The least severity that it is told of."
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not is_source_name(name):
            raise ValueError("a webhook's name is up to 63 letters, digits, dots, dashes and underscores")
        return name

    @field_validator("url")
    @classmethod
    def _http_url(cls, url: str) -> str:
        return checked_url(url)
