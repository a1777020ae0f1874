"""What the operator decides: every setting, its environment variable (`KVXRAY_` and the field's name) and its default.

Knows nothing of what the settings cause. Bad values are the user's to mend: `load_settings` answers them with one
sentence.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Self

from kvxray_engine.errors import UserError
from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from kvxray_backend.base_path import OWN_FOLDERS
from kvxray_backend.loopback import is_loopback
from kvxray_backend.observed.entries import Entry, read_entry
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.target_list import TargetList
from kvxray_backend.setting_urls import checked_url
from kvxray_backend.source_spec import Age, Size, SourceSpec
from kvxray_backend.webhook_spec import WebhookSpec

ENV_PREFIX: Final = "KVXRAY_"


def _engine_setting(raw: Any) -> Entry:
    try:
        return read_entry(raw)
    except UserError as error:
        raise UserError(f"Mend KVXRAY_ENGINES: {error}") from error


EngineSetting = Annotated[ObserveSpec | TargetList, BeforeValidator(_engine_setting)]


class Settings(BaseSettings):
    """The settings of one backend process."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="ignore", frozen=True)

    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. Anything beyond loopback needs KVXRAY_TOKEN.",
    )
    port: int = Field(default=8501, ge=0, le=65535, description="Port of the page and the API; 0 picks a free one.")
    token: SecretStr = Field(
        default=SecretStr(""),
        description="Secret that every request and socket must show (Authorization: Bearer, or once as /?token=…). "
        "Empty: none is asked for, and only loopback is served.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Host names, separated by commas, under which the page may be opened besides localhost.",
    )
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL of the event log. Empty: an SQLite file kvxray.db in KVXRAY_DATA_DIR.",
    )
    data_dir: Path = Field(
        default=Path("~/.local/share/kvxray"),
        description="Folder for what kvxray keeps: the event log, fetched models.",
    )
    sources: tuple[SourceSpec, ...] = Field(
        default=(),
        description="Engines to follow, as a JSON list of {name, events, replay, api}.",
    )
    engines: tuple[EngineSetting, ...] = Field(
        default=(),
        description="Engines of others to watch, as a JSON list of what docs/attach.md describes.",
    )
    observe: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="Files that name engines of others to watch (YAML or JSON), separated by commas; read again when "
        "they change.",
    )
    retention_age: Age = Field(
        default=7 * 86_400,
        description="How long events are kept, such as 7d or 12h; none: for ever. Rollups stay longer.",
    )
    retention_size: Size = Field(
        default=10 * 10**9,
        description="How large the event log may become, such as 10GB; the oldest events go first. none: no limit.",
    )
    alertmanagers: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        repr=False,
        description="Base URLs of Alertmanagers that alerts are sent to, separated by commas: all of one cluster.",
    )
    webhooks: tuple[WebhookSpec, ...] = Field(
        default=(),
        description="Where else alerts are sent, as a JSON list of {name, url, secret, template, least}.",
    )
    rules: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="Files with alert rules of your own (YAML), separated by commas; read again when they change.",
    )
    public_url: str = Field(
        default="",
        description="Address of the page as people open it, for links in alerts. Empty: where the server listens.",
    )
    base_path: str = Field(
        default="",
        description="Path under which everything is served, for example /kvxray behind a proxy, whether it takes the "
        "path away or not. Empty: the root.",
    )
    page: bool = Field(default=True, description="Whether to serve the page. False: the API alone.")

    @field_validator("token")
    @classmethod
    def _fits_a_header(cls, token: SecretStr) -> SecretStr:
        text = token.get_secret_value()
        if text != text.strip() or not (text.isascii() and text.isprintable()):
            raise ValueError("a token is made of plain ASCII characters, without spaces at its ends")
        return token

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, hosts: Any) -> Any:
        if isinstance(hosts, str):
            hosts = hosts.split(",")
        return tuple(host.strip().lower().rstrip(".") for host in hosts if host.strip())

    @field_validator("alertmanagers", mode="before")
    @classmethod
    def _split_urls(cls, urls: Any) -> Any:
        if isinstance(urls, str):
            urls = urls.split(",")
        return tuple(checked_url(str(url).strip()).rstrip("/") for url in urls if str(url).strip())

    @field_validator("public_url")
    @classmethod
    def _whole_url(cls, url: str) -> str:
        return checked_url(url.strip()).rstrip("/") if url.strip() else ""

    @field_validator("observe", "rules", mode="before")
    @classmethod
    def _split_files(cls, files: Any) -> Any:
        if isinstance(files, str):
            files = files.split(",")
        return tuple(Path(str(file).strip()) for file in files if str(file).strip())

    @field_validator("base_path")
    @classmethod
    def _clean_base_path(cls, path: str) -> str:
        trimmed = path.strip().strip("/")
        # Browsers take dots alone as directions, and would ask for another path.
        moves = not {".", ".."}.isdisjoint(trimmed.split("/"))
        if moves or (trimmed and not re.fullmatch(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*", trimmed)):
            raise ValueError(f"{path!r} is not a path such as /kvxray")
        if trimmed.partition("/")[0] in OWN_FOLDERS:
            raise ValueError(f"{path!r} is where kvxray keeps something of its own; take a path such as /kvxray")
        return f"/{trimmed}" if trimmed else ""

    @field_validator("data_dir")
    @classmethod
    def _expand_home(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise ValueError(f"'{folder}' names a home folder that is not there") from error

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not is_loopback(self.host) and not self.has_token:
            raise UserError(
                f"Set KVXRAY_TOKEN to a secret of your own before listening on {self.host or 'every address'}, "
                "or keep KVXRAY_HOST at 127.0.0.1."
            )
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise UserError("Give every entry of KVXRAY_SOURCES a name of its own.")
        names += [entry.name for entry in self.engines if isinstance(entry, ObserveSpec)]
        if len(set(names)) != len(names):
            raise UserError("Give every engine a name of its own, among those of KVXRAY_SOURCES too.")
        hooks = [hook.name for hook in self.webhooks]
        if len(set(hooks)) != len(hooks):
            raise UserError("Give every entry of KVXRAY_WEBHOOKS a name of its own.")
        return self

    @property
    def has_token(self) -> bool:
        return bool(self.token.get_secret_value())

    @property
    def database(self) -> str:
        """The URL of the event log, the default filled in."""
        return self.database_url or f"sqlite:///{self.data_dir / 'kvxray.db'}"

    @property
    def url(self) -> str:
        """Where this process itself reaches its own server (a wildcard address is reached over loopback)."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}{self.base_path}"


def load_settings(**overrides: Any) -> Settings:
    """Settings from the environment, `overrides` winning. Raises `UserError`, one sentence, for a bad value."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = ENV_PREFIX + ".".join(str(part) for part in first["loc"]).upper()
        reason = first["msg"].removeprefix("Value error, ")
        raise UserError(f"Mend {name}: {reason[:1].lower()}{reason[1:]}.") from error
    except SettingsError as error:
        if "webhooks" in str(error):
            raise UserError("Write KVXRAY_WEBHOOKS as a JSON list of {name, url, secret, template, least}.") from error
        if "engines" in str(error):
            raise UserError("Write KVXRAY_ENGINES as a JSON list of engines, as in docs/attach.md.") from error
        raise UserError("Write KVXRAY_SOURCES as a JSON list of {name, events, replay, api}.") from error


__all__ = ["ENV_PREFIX", "Settings", "SourceSpec", "WebhookSpec", "load_settings"]
