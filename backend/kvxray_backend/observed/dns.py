"""One engine for each address behind a name: a headless service tells its pods by DNS."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from kvxray_engine.errors import UserError

from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.source_name import MAX_NAME
from kvxray_backend.sources.foreign.endpoint import WILDCARDS

Resolver = Callable[[str], list[str]]
MAX_ADDRESSES: Final = 1024


def resolve(host: str) -> list[str]:
    """Its addresses, sorted; those of IPv4 where it has both kinds. Raises `UserError`."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"The name {host[:200]!r} cannot be looked up: {_reason(error)}.") from error
    by_family = {family: {str(place[0]) for one, *_, place in found if one == family} for family, *_ in found}
    return sorted(by_family.get(socket.AF_INET) or by_family.get(socket.AF_INET6) or ())[:MAX_ADDRESSES]


def host_to_expand(spec: ObserveSpec) -> str:
    """The host whose name stands for many. Raises `UserError` where there is none."""
    address = spec.events or spec.metrics or ""
    host = urlsplit(address).hostname or ""
    if not host or address.startswith(("ipc:", "file:")) or host in WILDCARDS:
        raise UserError(f"{spec.name}: expand needs the name of a host, and {address!r} has none.")
    return host


def expanded(spec: ObserveSpec, host: str, addresses: list[str]) -> list[ObserveSpec]:
    """One for each address, which takes the place of the host's name wherever it stands; named by it too."""
    return [
        spec.model_copy(
            update={
                "name": _named(spec.name, address),
                "events": _at(spec.events, host, address),
                "replay": _at(spec.replay, host, address),
                "metrics": _at(spec.metrics, host, address),
                "labels": {"host": host, **spec.labels},
                "expand": "none",
            }
        )
        for address in addresses
    ]


def _named(name: str, address: str) -> str:
    plain = address.replace(":", "-").replace("%", "-")
    named = f"{name}-{plain}"
    return named if len(named) <= MAX_NAME else f"{name}-{blake2b(address.encode(), digest_size=4).hexdigest()}"


def _at(url: str | None, host: str, address: str) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.hostname != host:
        return url
    written = f"[{address}]" if ipaddress.ip_address(address.partition("%")[0]).version == 6 else address
    port = f":{parts.port}" if parts.port is not None else ""
    return urlunsplit(parts._replace(netloc=f"{written}{port}"))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is no name of a host"
