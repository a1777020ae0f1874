"""Where alerts are sent: each Alertmanager and webhook of the settings, and how it is shown without its secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from kvxray_backend.analysis.finding import Severity
from kvxray_backend.settings import Settings, WebhookSpec

_GRAVITY: Final[tuple[Severity, ...]] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Target:
    """`url`: whole, with what is secret in it; `repr` leaves it out."""

    name: str
    kind: Literal["alertmanager", "webhook"]
    url: str
    least: Severity = "info"
    secret: str = ""
    template: str = "json"

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.address!r})"

    @property
    def address(self) -> str:
        """As it is shown: whoever knows the path of a webhook can post to it, so that it is left out."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{_host(self.url)}" + ("/…" if parts.path.strip("/") or parts.query else "")

    @property
    def base(self) -> str:
        """The address without name and password, for links to an Alertmanager's own page."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, _host(self.url), parts.path.rstrip("/"), "", ""))

    def hears_of(self, severity: Severity) -> bool:
        return _GRAVITY.index(severity) >= _GRAVITY.index(self.least)

    def gives_away(self, text: str) -> bool:
        """Whether a text, which came from outside, has something of the address or the secret in it."""
        parts = urlsplit(self.url)
        asked = (value for _, value in parse_qsl(parts.query))
        secrets = {self.secret, parts.username or "", parts.password or "", parts.query, *asked, *parts.path.split("/")}
        # As they are written in the address, and as they are meant.
        secrets |= {unquote(secret) for secret in secrets}
        return any(len(secret) > 3 and secret.lower() in text.lower() for secret in secrets)


def targets_of(settings: Settings) -> list[Target]:
    """Alertmanagers first. Their names follow from their addresses, so that their order may change."""
    targets = [
        Target(f"Alertmanager {_host(url)}", "alertmanager", url) for url in dict.fromkeys(settings.alertmanagers)
    ]
    return [*_named_apart(targets), *(_webhook(spec) for spec in settings.webhooks)]


def _webhook(spec: WebhookSpec) -> Target:
    return Target(spec.name, "webhook", spec.url, spec.least, spec.secret.get_secret_value(), spec.template)


def _named_apart(targets: list[Target]) -> list[Target]:
    """Two below one host differ by a number."""
    named: dict[str, Target] = {}
    for target in targets:
        same = sum(known.partition(" #")[0] == target.name for known in named)
        name = f"{target.name} #{same + 1}" if same else target.name
        named[name] = Target(name, target.kind, target.url)
    return list(named.values())


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
